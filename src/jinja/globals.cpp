#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "jinja/methods.h"
#include "jinja/python_text.h"
#include "jinja/runtime.h"

namespace pagedinfer::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // items, as in jinja2's sandbox

Value range(Runtime&, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (!arguments.named.empty() || given.empty() || given.size() > 3) {
    throw TemplateError("range() takes one to three integers");
  }
  for (const Value& value : given) {
    if (!value.is_integral()) {
      throw TemplateError(fmt::format("range() takes integers, found {}", type_name(value)));
    }
  }
  const int64_t start = given.size() == 1 ? 0 : given[0].as_int();
  const int64_t stop = given.size() == 1 ? given[0].as_int() : given[1].as_int();
  const int64_t step = given.size() == 3 ? given[2].as_int() : 1;
  if (step == 0) throw TemplateError("range() takes a step that is not 0");
  // In wider arithmetic: the ends may be anywhere.
  const __int128 span =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 width = step > 0 ? step : -static_cast<__int128>(step);
  if (span > width * kMaxRange) {
    throw TemplateError(fmt::format("range() of more than {} items", kMaxRange));
  }
  return Value::of(Kind::kRange, new RangeObject(start, stop, step));
}

// dict(...): of a dict or of pairs, and of arguments by name.
Dict dict_of(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) throw TemplateError("dict() takes one value at most");
  Dict result;
  const auto set = [&](const Value& key, const Value& value) {
    check_hashable(key, runtime.budget);
    runtime.budget.spend_values(2);
    result.set(key, value, runtime.budget);
  };
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.entries().entries()) set(key, value);
    } else {
      Items items(runtime, source);
      for (Value item = items.next(); !item.is_missing(); item = items.next()) {
        const std::vector<Value> pair = all_items(runtime, item);
        if (pair.size() != 2) throw TemplateError("dict() takes pairs");
        set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) set(Value::string(name), value);
  return result;
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  auto* object = new NamespaceObject();
  const Value result = Value::of(Kind::kNamespace, object);
  runtime.kept.push_back(result);
  object->attributes = dict_of(runtime, arguments);
  for (const auto& [key, value] : object->attributes.entries()) {
    if (key.is_string() && key.text().starts_with('_')) {
      throw TemplateError("attributes of a namespace cannot begin with an underscore");
    }
  }
  return result;
}

struct Cycler : FunctionObject {
  explicit Cycler(const Value& its_items) : FunctionObject("Cycler", "cycler", its_items) {
    attribute = [this, items = its_items](std::string_view which) {
      if (which == "current") return items.items()[at];
      if (which != "next" && which != "reset") return Value();
      // Holds the cycler itself, as Python's bound methods do.
      auto* method =
          new FunctionObject("method", std::string(which), Value::of(Kind::kFunction, this));
      method->call = [self = Value::of(Kind::kFunction, this), this, items,
                      resets = which == "reset"](const Arguments& arguments) {
        const Bound bound("a cycler's method", arguments, {});
        if (resets) {
          at = 0;
          return Value::none();
        }
        const Value current = items.items()[at];
        at = (at + 1) % items.items().size();
        return current;
      };
      return Value::of(Kind::kFunction, method);
    };
  }
  size_t at = 0;
};

Value cycler(Runtime& runtime, const Arguments& arguments) {
  if (!arguments.named.empty() || arguments.positional.empty()) {
    throw TemplateError("cycler() takes one value at least");
  }
  return Value::of(Kind::kFunction, new Cycler(runtime.tuple(arguments.positional)));
}

Value joiner(Runtime&, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  const Value separator = bound.has(0) ? bound[0] : Value::string(", ");
  auto* object = new FunctionObject("Joiner", "joiner", separator);
  object->call = [separator, used = false](const Arguments& none) mutable {
    const Bound no_arguments("a joiner", none, {});
    return std::exchange(used, true) ? separator : Value::string("");
  };
  return Value::of(Kind::kFunction, object);
}

[[noreturn]] Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw TemplateError(to_text(bound[0], runtime.budget).text, 0, TemplateError::Reason::kRaised);
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  return runtime.text(format_time(bound.string(0), runtime.now, runtime.budget));
}

[[noreturn]] Value lipsum(Runtime&, const Arguments&) {
  throw TemplateError("the function 'lipsum' is not supported");
}

using Call = Value (*)(Runtime& runtime, const Arguments& arguments);

FunctionObject* function(Runtime& runtime, std::string_view type, std::string_view name,
                         Call its_call) {
  auto* object = new FunctionObject(type, std::string(name));
  object->call = [&runtime, its_call](const Arguments& arguments) {
    return its_call(runtime, arguments);
  };
  return object;
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  return runtime.dict(dict_of(runtime, arguments));
}

struct Global {
  std::string_view name, type;
  Call call;
};
constexpr Global kGlobals[] = {{"cycler", "type", cycler},
                               {"dict", "type", make_dict},
                               {"joiner", "type", joiner},
                               {"lipsum", "function", lipsum},
                               {"namespace", "type", make_namespace},
                               {"raise_exception", "function", raise_exception},
                               {"range", "function", range},
                               {"strftime_now", "function", strftime_now}};

}  // namespace

Value global_function(Runtime& runtime, std::string_view name) {
  const auto* const global = std::ranges::find(kGlobals, name, &Global::name);
  if (global == std::end(kGlobals)) return {};
  FunctionObject* const object = function(runtime, global->type, name, global->call);
  if (name == "dict") {
    object->attribute = [&runtime](std::string_view which) {
      if (which != "fromkeys") return Value();
      return Value::of(Kind::kFunction, function(runtime, "method", which, dict_of_keys));
    };
  }
  return Value::of(Kind::kFunction, object);
}

}  // namespace pagedinfer::jinja
