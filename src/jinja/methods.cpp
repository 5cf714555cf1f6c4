#include "jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pagedinfer::jinja {
namespace {

Value get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("get", arguments, {"key", "default"}, 1);
  check_hashable(bound[0], runtime.budget);
  const Value* found = self.entries().find(bound[0], runtime.budget);
  if (found != nullptr) return *found;
  return bound.has(1) ? bound[1] : Value::none();
}

template <ViewObject::Of kOf>
Value view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("items", arguments, {});
  runtime.budget.spend_values(1);
  return Value::of(Kind::kView, new ViewObject(self, kOf));
}

Value copy(Runtime&, const Value& self, const Arguments& arguments) {
  positional("copy", arguments, {});
  return self;  // neither can be changed
}

Value fromkeys(Runtime& runtime, const Value&, const Arguments& arguments) {
  return dict_of_keys(runtime, arguments);
}

bool is_item(Runtime& runtime, const Value& item, const Value& wanted) {
  return is_same(item, wanted) || equals(item, wanted, runtime.budget);
}

Value count_equal(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("count", arguments, {"value"}, 1);
  Items items(runtime, self);
  int64_t found = 0;
  for (Value item = items.next(); !item.is_missing(); item = items.next()) {
    found += is_item(runtime, item, bound[0]) ? 1 : 0;
  }
  return Value::integer(found);
}

Value find_equal(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("index", arguments, {"value", "start", "stop"}, 1);
  const int64_t size = length_of(self).as_int();
  const auto bounded = [&](size_t i, int64_t otherwise) {
    const int64_t at = bound.integer(i, otherwise);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t start = bounded(1, 0), stop = bounded(2, size);
  Items items(runtime, self);
  int64_t at = 0;
  for (Value item = items.next(); !item.is_missing(); item = items.next(), ++at) {
    if (at >= start && at < stop && is_item(runtime, item, bound[0])) return Value::integer(at);
  }
  throw TemplateError("index() did not find the value");
}

constexpr std::array kDictMethods = std::to_array<NamedMethod>({
    {"copy", copy},
    {"fromkeys", fromkeys},
    {"get", get},
    {"items", view<ViewObject::Of::kItems>},
    {"keys", view<ViewObject::Of::kKeys>},
    {"values", view<ViewObject::Of::kValues>},
});
constexpr std::array kListMethods =
    std::to_array<NamedMethod>({{"copy", copy}, {"count", count_equal}, {"index", find_equal}});
constexpr std::array kTupleMethods =
    std::to_array<NamedMethod>({{"count", count_equal}, {"index", find_equal}});

constexpr std::array<std::string_view, 5> kMutatingDict = {"clear", "pop", "popitem", "setdefault",
                                                           "update"};
constexpr std::array<std::string_view, 8> kMutatingList = {"append", "clear",  "extend",  "insert",
                                                           "pop",    "remove", "reverse", "sort"};

constexpr std::array<std::string_view, 5> kUnsupportedString = {
    "encode", "expandtabs", "format_map", "maketrans", "translate"};
constexpr std::array<std::string_view, 13> kUnsupportedNumber = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes"};

template <size_t kSize>
bool has(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::span<const NamedMethod> methods_of(const Value& self) {
  switch (self.kind()) {
    case Kind::kString: return string_methods();
    case Kind::kDict: return kDictMethods;
    case Kind::kList: return kListMethods;
    case Kind::kTuple:
    case Kind::kRange: return kTupleMethods;
    default: return {};
  }
}

}  // namespace

Bound positional(std::string_view method, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, size_t num_required) {
  if (!arguments.named.empty()) {
    throw TemplateError(fmt::format("{}() takes no arguments by name", method));
  }
  return Bound(method, arguments, parameters, num_required);
}

Value dict_of_keys(Runtime& runtime, const Arguments& arguments) {
  const Bound bound = positional("fromkeys", arguments, {"iterable", "value"}, 1);
  Dict result;
  Items items(runtime, bound[0]);
  for (Value key = items.next(); !key.is_missing(); key = items.next()) {
    check_hashable(key, runtime.budget);
    runtime.budget.spend_values(2);
    result.set(key, bound.has(1) ? bound[1] : Value::none(), runtime.budget);
  }
  return runtime.dict(std::move(result));
}

Method find_method(const Value& self, std::string_view name) {
  const auto methods = methods_of(self);
  const auto found = std::ranges::find(methods, name, &NamedMethod::name);
  return found == methods.end() ? nullptr : found->method;
}

bool is_mutating(const Value& self, std::string_view name) {
  return self.is(Kind::kDict) ? has(kMutatingDict, name)
                              : self.is(Kind::kList) && has(kMutatingList, name);
}

bool is_unsupported(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString:
      return has(kUnsupportedString, name) ||
             (self.is_safe() && (name == "striptags" || name == "unescape" || name == "escape"));
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
    case Kind::kFloat: return has(kUnsupportedNumber, name);
    case Kind::kView: return name == "mapping" || name == "isdisjoint";
    case Kind::kIterator: return name == "send" || name == "throw" || name == "close";
    default: return false;
  }
}

}  // namespace pagedinfer::jinja
