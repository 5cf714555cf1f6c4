#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/utf8.h"
#include "jinja/characters.h"
#include "jinja/filters.h"
#include "jinja/marked_text.h"
#include "jinja/methods.h"
#include "jinja/numbers.h"
#include "jinja/python_text.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

Value length(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  const Value result = length_of(value);
  if (result.is_missing()) throw TemplateError(fmt::format("{} has no length", type_name(value)));
  return result;
}

Value otherwise(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  if (!value.is_undefined() && !(bound.truth(1, false) && !is_true(value))) return value;
  return bound.has(0) ? bound[0] : Value::string("");
}

Value attr(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  const std::string& name = bound.string(0).text;
  require_defined(value);
  // Unlike value.name it never gets an item.
  const bool is_item = value.is(Kind::kDict) && !name.starts_with("__") &&
                       find_method(value, name) == nullptr && !is_mutating(value, name);
  if (is_item) return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return get_attribute(runtime, value, name);
}

Value first(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  Items items(runtime, value);
  const Value item = items.next();
  return item.is_missing() ? Value::undefined("no first item, the sequence was empty") : item;
}

bool is_reversible(const Value& value) { return is_iterable(value) && !value.is(Kind::kIterator); }

Value last(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  if (!is_reversible(value)) {
    throw TemplateError(fmt::format("{} has no last item", type_name(value)));
  }
  std::vector<Value> items = all_items(runtime, value);
  return items.empty() ? Value::undefined("no last item, the sequence was empty") : items.back();
}

Value list(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return runtime.list(all_items(runtime, value));
}

Value iterator_over(Runtime& runtime, std::string_view type, std::vector<Value> items) {
  const Value list = runtime.list(std::move(items));
  return make_iterator(runtime, type, {list}, [list, at = size_t{0}]() mutable {
    return at == list.items().size() ? Value() : list.items()[at++];
  });
}

Value reverse(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  if (value.is_string()) {
    TextBuilder out(runtime.budget);
    const std::string& text = value.text();
    for (size_t end = text.size(); end > 0;) {
      const size_t begin = character_begin(text, end);
      out.add(value.marked(), begin, end);
      end = begin;
    }
    return runtime.text(out.take(), value.is_safe());
  }
  std::vector<Value> items = all_items(runtime, value);
  std::reverse(items.begin(), items.end());
  if (value.is(Kind::kIterator)) return runtime.list(std::move(items));
  return iterator_over(runtime, "reversed", std::move(items));
}

Value items(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  return make_iterator(
      runtime, "generator", {value}, [&runtime, value, source = std::optional<Items>()]() mutable {
        if (value.is_undefined()) return Value();
        if (!value.is(Kind::kDict)) throw TemplateError("items expects a dict");
        if (!source) {
          source.emplace(runtime,
                         Value::of(Kind::kView, new ViewObject(value, ViewObject::Of::kItems)));
        }
        return source->next();
      });
}

Value join_items(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const MarkedText separator = bound.has(0) ? to_text(bound[0], runtime.budget) : MarkedText();
  const AttributePath path(runtime, bound[1]);
  TextBuilder out(runtime.budget);
  Items all(runtime, value);
  bool begun = false;
  for (Value item = all.next(); !item.is_missing(); item = all.next()) {
    if (std::exchange(begun, true)) out.add(separator);
    out.add(to_text(path.of(item), runtime.budget));
  }
  return runtime.text(out.take());
}

Value sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const AttributePath path(runtime, bound[0]);
  Value total = bound.has(1) ? bound[1] : Value::integer(0);
  if (total.is_string()) throw TemplateError("sum does not add strings");
  Items all(runtime, value);
  for (Value item = all.next(); !item.is_missing(); item = all.next()) {
    total = arithmetic(runtime, "+", total, path.of(item));
  }
  return total;
}

// A generator of what `transform` makes of each item: missing leaves the item out. `start` is
// called before the first item.
using Transform = std::function<Value(const Value& item)>;
Value generator(Runtime& runtime, const Value& value, const Arguments& arguments,
                std::function<Transform()> start) {
  struct State {
    std::optional<Items> items = {};
    Transform transform = {};
  };
  std::vector<Value> holds = arguments.positional;
  for (const auto& [name, argument] : arguments.named) holds.push_back(argument);
  holds.push_back(value);
  return make_iterator(runtime, "generator", holds,
                       [&runtime, value, start = std::move(start), state = State()]() mutable {
                         if (!is_true(value)) return Value();
                         if (!state.items) {
                           state.transform = start();
                           state.items.emplace(runtime, value);
                         }
                         while (true) {
                           const Value item = state.items->next();
                           if (item.is_missing()) return item;
                           Value made = state.transform(item);
                           if (!made.is_missing()) return made;
                         }
                       });
}

Value map(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return generator(runtime, value, arguments, [&runtime, arguments]() -> Transform {
    const bool by_attribute =
        arguments.positional.empty() &&
        std::ranges::any_of(arguments.named, [](const auto& a) { return a.first == "attribute"; });
    if (by_attribute) {
      const Bound bound("map", arguments, {"attribute", "default"});
      return [path = AttributePath(runtime, bound[0], bound[1])](const Value& item) {
        return path.of(item);
      };
    }
    if (arguments.positional.empty() || !arguments.positional[0].is_string()) {
      throw TemplateError("map expects the name of a filter");
    }
    return [&runtime, name = arguments.positional[0].text(), arguments](const Value& item) {
      Arguments rest = arguments;
      rest.positional.erase(rest.positional.begin());
      return apply_filter(runtime, name, item, std::move(rest));
    };
  });
}

template <bool kKept, bool kByAttribute>
Value select(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return generator(runtime, value, arguments, [&runtime, arguments]() -> Transform {
    Arguments rest = arguments;
    Value attribute;
    const auto take = [&]() {
      Value taken = rest.positional.front();
      rest.positional.erase(rest.positional.begin());
      return taken;
    };
    if (kByAttribute) {
      if (rest.positional.empty()) throw TemplateError("selectattr expects an attribute");
      attribute = take();
    }
    Value test;
    if (!rest.positional.empty()) test = take();
    if (!test.is_missing() && !test.is_string()) {
      throw TemplateError("select expects the name of a test");
    }
    return [&runtime, rest, test, path = AttributePath(runtime, attribute)](const Value& item) {
      const Value tested = path.of(item);
      const bool holds =
          test.is_missing() ? is_true(tested) : apply_test(runtime, test.text(), tested, rest);
      return holds == kKept ? item : Value();
    };
  });
}

Value batch(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const Value fill = bound[1];
  const Value size = bound[0];
  return make_iterator(
      runtime, "generator", {value, fill},
      [&runtime, value, fill, size, source = std::optional<Items>(), held = Value()]() mutable {
        if (!source) source.emplace(runtime, value);
        std::vector<Value> line;
        if (!held.is_missing()) line.push_back(std::exchange(held, Value()));
        for (Value item = source->next(); !item.is_missing(); item = source->next()) {
          const auto count = Value::integer(static_cast<int64_t>(line.size()));
          if (equals(count, size, runtime.budget)) {
            held = item;
            return runtime.list(std::move(line));
          }
          line.push_back(item);
        }
        if (line.empty()) return Value();
        if (!fill.is_missing() && !fill.is_none()) {
          if (!size.is_integral()) throw TemplateError("batch expects an integer");
          const auto missing = static_cast<size_t>(
              std::max<int64_t>(size.as_int() - static_cast<int64_t>(line.size()), 0));
          runtime.budget.spend_values(missing);
          line.insert(line.end(), missing, fill);
        }
        return runtime.list(std::move(line));
      });
}

Value slice(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  const Value fill = bound[1];
  const Value wanted = bound[0];
  struct State {
    std::vector<Value> items = {};
    int64_t slice = -1;
    size_t at = 0;
  };
  return make_iterator(runtime, "generator", {value, fill},
                       [&runtime, value, fill, wanted, state = State()]() mutable {
                         if (state.slice < 0) {
                           state.items = all_items(runtime, value);
                           state.slice = 0;
                         }
                         if (!wanted.is_integral()) throw TemplateError("slice expects an integer");
                         const int64_t num_slices = wanted.as_int();
                         if (num_slices == 0) throw TemplateError("division by zero");
                         if (state.slice >= num_slices) return Value();
                         const auto size = static_cast<int64_t>(state.items.size());
                         const bool longer = state.slice < size % num_slices;
                         const int64_t count = size / num_slices + (longer ? 1 : 0);
                         ++state.slice;
                         const auto begin = state.items.begin() + static_cast<ptrdiff_t>(state.at);
                         runtime.budget.spend_values(static_cast<size_t>(count));
                         std::vector<Value> part(begin, begin + count);
                         state.at += static_cast<size_t>(count);
                         if (!fill.is_missing() && !fill.is_none() && !longer) part.push_back(fill);
                         return runtime.list(std::move(part));
                       });
}

constexpr std::array kSequenceFilters = std::to_array<NamedFilter>({
    {"attr", attr},
    {"batch", batch},
    {"count", length},
    {"d", otherwise},
    {"default", otherwise},
    {"first", first},
    {"items", items},
    {"join", join_items},
    {"last", last},
    {"length", length},
    {"list", list},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sum", sum},
});

}  // namespace

std::span<const NamedFilter> sequence_filters() { return kSequenceFilters; }

AttributePath::AttributePath(Runtime& runtime, const Value& path, const Value& otherwise)
    : runtime_(runtime), otherwise_(otherwise) {
  if (path.is_missing() || path.is_none()) return;
  if (!path.is_string()) {
    parts_.push_back(path);
    return;
  }
  for (const Span& span : split_at(path.text(), ".", -1, false, runtime.budget)) {
    const std::string part = path.text().substr(span.begin, span.end - span.begin);
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    parts_.push_back(is_number ? Value::integer(parse_integer(part, 10).value_or(0))
                               : Value::string(part));
  }
}

Value AttributePath::of(const Value& value) const {
  Value result = value;
  for (const Value& part : parts_) {
    runtime_.budget.spend_steps();
    result = get_item(runtime_, result, part);
    if (result.is_undefined() && !otherwise_.is_missing() && !otherwise_.is_none()) {
      result = otherwise_;
    }
  }
  runtime_.check_defined(result);
  return result;
}

Value without_case(Runtime& runtime, const Value& value) {
  return value.is_string() ? runtime.text(in_case(value.marked(), Case::kLower, runtime.budget))
                           : value;
}

}  // namespace pagedinfer::jinja
