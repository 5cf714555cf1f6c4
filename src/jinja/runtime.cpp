#include "jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/refusal.h"
#include "core/utf8.h"
#include "jinja/characters.h"
#include "jinja/marked_text.h"
#include "jinja/methods.h"
#include "jinja/python_text.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

constexpr size_t kQuotedBytes = 100;  // of a name, in a message: a template may make a long one

bool is_dunder(std::string_view name) { return name.starts_with("__"); }

// The index of an item counted from the front, or -1.
int64_t item_index(const Value& key, int64_t size) {
  if (!key.is_integral()) return -1;
  const int64_t i = key.as_int() < 0 ? key.as_int() + size : key.as_int();
  return i < 0 || i >= size ? -1 : i;
}

// The bytes of a character by its index; nothing if there is none.
Value character_at(Runtime& runtime, const Value& string, const Value& key) {
  if (!key.is_integral()) return {};
  const std::string& text = string.text();
  const bool from_end = key.as_int() < 0;
  runtime.budget.spend_reading(
      from_end ? text.size() : std::min(text.size(), 4 * static_cast<size_t>(key.as_int())));
  const int64_t i = from_end ? key.as_int() + num_characters(text) : key.as_int();
  if (i < 0) return {};
  const size_t at = character_offset(text, static_cast<size_t>(i));
  if (at == text.size()) return {};
  return runtime.text(string.marked().part(at, at + utf8_size(text[at])), string.is_safe());
}

// object[key] where Python finds something; else missing.
Value subscript(Runtime& runtime, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::kUndefined: require_defined(object); break;
    case Kind::kString: return character_at(runtime, object, key);
    case Kind::kList:
    case Kind::kTuple: {
      const int64_t i = item_index(key, static_cast<int64_t>(object.items().size()));
      return i < 0 ? Value() : object.items()[static_cast<size_t>(i)];
    }
    case Kind::kRange: {
      const int64_t i = item_index(key, object.range().size());
      return i < 0 ? Value() : Value::integer(object.range().at(i));
    }
    case Kind::kDict: {
      if (!is_hashable(key, runtime.budget)) return {};
      const Value* found = object.entries().find(key, runtime.budget);
      return found == nullptr ? Value() : *found;
    }
    default: break;
  }
  return {};
}

// getattr(object, name) where Python finds something; else missing.
Value attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (is_dunder(name) || is_mutating(object, name)) {
    return Value::undefined(fmt::format("the sandbox does not allow the attribute '{}' of {}",
                                        first_bytes(name, kQuotedBytes), type_name(object)));
  }
  if (object.is(Kind::kNamespace)) {
    const Value* found = object.name_space().attributes.find(name);
    return found == nullptr ? Value() : *found;
  }
  if (object.is(Kind::kFunction)) {
    return object.function().attribute ? object.function().attribute(name) : Value();
  }
  if (object.is(Kind::kTuple) && object.list_object().is_group) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  if (object.is(Kind::kRange)) {
    if (name == "start") return Value::integer(object.range().start);
    if (name == "stop") return Value::integer(object.range().stop);
    if (name == "step") return Value::integer(object.range().step);
  }
  if (const Method method = find_method(object, name)) {
    runtime.budget.spend_objects(2);
    auto* function = new FunctionObject("method", std::string(name), object);
    function->call = [&runtime, object, method](const Arguments& arguments) {
      spend_operands(runtime.budget, object, arguments);
      return method(runtime, object, arguments);
    };
    return Value::of(Kind::kFunction, function);
  }
  if (is_unsupported(object, name)) {
    throw TemplateError(
        fmt::format("the attribute '{}' of {} is not supported", name, type_name(object)));
  }
  return {};
}

Value no_attribute(Budget& budget, const Value& object, std::string_view name) {
  budget.spend_objects(2);
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(object),
                                      first_bytes(name, kQuotedBytes)));
}

// The indices of a slice: `count` of them from `begin`.
struct Slice {
  int64_t begin, step, count;
};
Slice slice_of(int64_t size, const Value& begin, const Value& end, const Value& step) {
  const auto index = [](const Value& value, int64_t otherwise) {
    if (value.is_none()) return otherwise;
    if (!value.is_integral()) throw TemplateError("the bounds of a slice are integers or none");
    return value.as_int();
  };
  const int64_t by = index(step, 1);
  if (by == 0) throw TemplateError("the step of a slice cannot be 0");
  const bool forward = by > 0;
  const auto clamped = [&](int64_t i) {
    if (i < 0) i += size;
    return std::clamp<int64_t>(i, forward ? 0 : -1, forward ? size : size - 1);
  };
  const int64_t from = begin.is_none() ? (forward ? 0 : size - 1) : clamped(index(begin, 0));
  const int64_t to = end.is_none() ? (forward ? size : -1) : clamped(index(end, 0));
  const RangeObject range(from, to, by);
  return {from, by, range.size()};
}

// The offset of the character that stands `by` characters behind the one at `at`, or before it.
// REQUIRES: there is one.
size_t moved(std::string_view text, size_t at, int64_t by) {
  for (; by > 0; --by) at += utf8_size(text[at]);
  for (; by < 0; ++by) at = character_begin(text, at);
  return at;
}

[[noreturn]] void no_operator(std::string_view op, const Value& a, const Value& b) {
  throw TemplateError(fmt::format("there is no {} {} {}", type_name(a), op, type_name(b)));
}

[[noreturn]] void beyond_64_bits() {
  throw TemplateError("integers beyond 64 bits are not supported");
}

[[noreturn]] void zero_division() { throw TemplateError("division by zero"); }

int64_t floor_division(int64_t a, int64_t b) {
  if (b == 0) zero_division();
  if (b == -1) {
    if (a == INT64_MIN) beyond_64_bits();
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == 0) zero_division();
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) zero_division();
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) beyond_64_bits();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) beyond_64_bits();
  }
  return Value::integer(result);
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) beyond_64_bits();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) beyond_64_bits();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) beyond_64_bits();
  } else if (op == "//") {
    result = floor_division(a, b);
  } else if (op == "%") {
    result = floor_remainder(a, b);
  } else if (op == "/") {
    if (b == 0) zero_division();
    return Value::real(static_cast<double>(static_cast<long double>(a) / b));
  } else {
    return integer_power(a, b);
  }
  return Value::integer(result);
}

double float_remainder(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

Value float_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) zero_division();
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
      throw TemplateError("complex numbers are not supported");
    }
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
      throw TemplateError("the result is too large");
    }
    return Value::real(power);
  }
  if (b == 0) zero_division();
  if (op == "/") return Value::real(a / b);
  if (op == "%") return Value::real(float_remainder(a, b));
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double floor = std::floor(quotient);
  return Value::real(quotient - floor > 0.5 ? floor + 1 : floor);
}

Value add(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    const bool safe = a.is_safe() || b.is_safe();
    const auto part = [&](const Value& value) {
      return safe && !value.is_safe() ? escape_html(value.marked(), runtime.budget)
                                      : value.marked();
    };
    TextBuilder sum(runtime.budget);
    sum.add(part(a));
    sum.add(part(b));
    return runtime.text(sum.take(), safe);
  }
  if ((a.is(Kind::kList) || a.is(Kind::kTuple)) && a.kind() == b.kind()) {
    runtime.budget.spend_objects(1);
    runtime.budget.spend_values(a.items().size() + b.items().size());
    std::vector<Value> items;
    items.reserve(a.items().size() + b.items().size());
    items.insert(items.end(), a.items().begin(), a.items().end());
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  no_operator("+", a, b);
}

Value multiply(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_integral() && !b.is_number()) return multiply(runtime, b, a);
  if (!b.is_integral()) no_operator("*", a, b);
  const int64_t count = std::max<int64_t>(b.as_int(), 0);
  if (a.is_string()) {
    return runtime.text(repeated(a.marked(), count, runtime.budget), a.is_safe());
  }
  if (!a.is(Kind::kList) && !a.is(Kind::kTuple)) no_operator("*", a, b);
  size_t size = 0;
  if (__builtin_mul_overflow(a.items().size(), static_cast<size_t>(count), &size)) size = SIZE_MAX;
  runtime.budget.spend_values(size);
  std::vector<Value> items;
  for (int64_t i = 0; i < count && size > 0; ++i) {
    items.insert(items.end(), a.items().begin(), a.items().end());
  }
  return a.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  Budget& budget = runtime.budget;
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) no_operator("in", item, container);
      budget.spend_reading(container.text().size() + item.text().size());
      return find_text(container.text(), item.text()) != std::string::npos;
    case Kind::kDict:
      check_hashable(item, budget);
      return container.entries().find(item, budget) != nullptr;
    case Kind::kRange: {
      if (!item.is_number()) return false;
      const RangeObject& range = container.range();
      if (!item.is_integral() && item.as_double() != std::floor(item.as_double())) return false;
      constexpr double kLimit = 9e18;
      if (!item.is_integral() && std::abs(item.as_double()) > kLimit) return false;
      const int64_t number =
          item.is_integral() ? item.as_int() : static_cast<int64_t>(item.as_double());
      const __int128 offset = static_cast<__int128>(number) - range.start;
      return offset % range.step == 0 && offset / range.step >= 0 &&
             offset / range.step < range.size();
    }
    case Kind::kView:
      if (container.view().of == ViewObject::Of::kKeys) {
        check_hashable(item, budget);
        return container.view().dict.entries().find(item, budget) != nullptr;
      }
      break;
    default: break;
  }
  if (!is_iterable(container)) no_operator("in", item, container);
  Items items(runtime, container);
  for (Value other = items.next(); !other.is_missing(); other = items.next()) {
    if (is_same(item, other) || equals(item, other, budget)) return true;
  }
  return false;
}

}  // namespace

Bound::Bound(std::string_view function, Arguments arguments,
             std::initializer_list<std::string_view> parameters, size_t num_required)
    : function_(function), names_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > names_.size()) {
    throw TemplateError(fmt::format("{}() takes at most {} arguments, {} were given", function,
                                    names_.size(), arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
  }
  for (auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(names_, name);
    if (place == names_.end()) {
      throw TemplateError(fmt::format("{}() has no argument '{}'", function, name));
    }
    Value& bound = values_[static_cast<size_t>(place - names_.begin())];
    if (!bound.is_missing()) {
      throw TemplateError(fmt::format("{}() got two values for '{}'", function, name));
    }
    bound = std::move(value);
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (values_[i].is_missing()) fail(i, "a value");
  }
}

void Bound::fail(size_t i, std::string_view expected) const {
  throw TemplateError(fmt::format("{}() expects {} for '{}', found {}", function_, expected,
                                  names_[i], has(i) ? type_name(values_[i]) : "nothing"));
}
int64_t Bound::integer(size_t i, int64_t otherwise) const {
  if (!has(i)) return otherwise;
  if (!values_[i].is_integral()) fail(i, "an integer");
  return values_[i].as_int();
}
const MarkedText& Bound::string(size_t i) const {
  if (!values_[i].is_string()) fail(i, "a string");
  return values_[i].marked();
}
bool Bound::truth(size_t i, bool otherwise) const {
  return has(i) ? is_true(values_[i]) : otherwise;
}

Items::Items(Runtime& runtime, const Value& of) : runtime_(runtime), of_(of) {
  if (!is_iterable(of)) throw TemplateError(fmt::format("{} has no items", type_name(of)));
}

Value Items::next() {
  runtime_.budget.spend_steps();
  switch (of_.kind()) {
    case Kind::kString: {
      const std::string& text = of_.text();
      if (at_ == text.size()) return {};
      const size_t begin = at_;
      at_ += utf8_size(text[at_]);
      return runtime_.text(of_.marked().part(begin, at_));
    }
    case Kind::kList:
    case Kind::kTuple: return at_ == of_.items().size() ? Value() : of_.items()[at_++];
    case Kind::kDict:
      return at_ == of_.entries().size() ? Value() : of_.entries().entries()[at_++].first;
    case Kind::kView:
      runtime_.budget.spend_objects(1);
      return at_ == of_.view().dict.entries().size() ? Value() : of_.view().at(at_++);
    case Kind::kRange:
      return static_cast<int64_t>(at_) == of_.range().size()
                 ? Value()
                 : Value::integer(of_.range().at(static_cast<int64_t>(at_++)));
    case Kind::kIterator: {
      const Budget::Level level(runtime_.budget);
      return of_.iterator().next();
    }
    default: return {};
  }
}

void spend_operands(Budget& budget, const Value& value, const Arguments& arguments) {
  constexpr size_t kStepsPerName = 16;  // it is copied, compared and hashed
  budget.spend_steps(1 + arguments.positional.size() + kStepsPerName * arguments.named.size());
  const auto read = [&](const Value& operand) {
    if (operand.is_string()) budget.spend_reading(operand.text().size());
  };
  read(value);
  for (const Value& argument : arguments.positional) read(argument);
  for (const auto& [name, argument] : arguments.named) read(argument);
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator: return true;
    default: return false;
  }
}

std::vector<Value> all_items(Runtime& runtime, const Value& value) {
  Items items(runtime, value);
  std::vector<Value> result;
  for (Value item = items.next(); !item.is_missing(); item = items.next()) {
    runtime.budget.spend_values(1);
    result.push_back(std::move(item));
  }
  return result;
}

Value make_iterator(Runtime& runtime, std::string_view type, const std::vector<Value>& holds,
                    std::function<Value()> next) {
  runtime.budget.spend_values(8);
  const int depth = depth_around(holds);
  runtime.kept.push_back(
      Value::of(Kind::kIterator, new IteratorObject(type, depth, std::move(next))));
  return runtime.kept.back();
}

Runtime::~Runtime() {
  for (const Value& value : kept) {
    if (value.is(Kind::kIterator)) {
      value.iterator().next = nullptr;
    } else {
      value.name_space().attributes = Dict();
    }
  }
}

void require_defined(const Value& value) {
  if (value.is_undefined()) throw TemplateError(value.text());
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  require_defined(object);
  Value found = attribute(runtime, object, name);
  if (!found.is_missing()) return found;
  if (object.is(Kind::kDict)) {
    if (const Value* item = object.entries().find(name)) return *item;
  }
  return no_attribute(runtime.budget, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  Value found = subscript(runtime, object, key);
  if (!found.is_missing()) return found;
  if (key.is_string()) {
    runtime.budget.spend_reading(key.text().size());
    found = attribute(runtime, object, key.text());
    return found.is_missing() ? no_attribute(runtime.budget, object, key.text()) : found;
  }
  runtime.budget.spend_objects(2);
  return Value::undefined(fmt::format("{} has no such element", type_name(object)));
}

Value get_slice(Runtime& runtime, const Value& object, const Value& begin, const Value& end,
                const Value& step) {
  require_defined(object);
  if (object.is_string()) {
    const MarkedText& content = object.marked();
    const std::string& text = content.text;
    runtime.budget.spend_reading(text.size());
    const Slice slice = slice_of(num_characters(text), begin, end, step);
    if (slice.count == 0) return runtime.text({}, object.is_safe());
    size_t at = character_offset(text, static_cast<size_t>(slice.begin));
    if (slice.step == 1) {
      const size_t size =
          character_offset(std::string_view(text).substr(at), static_cast<size_t>(slice.count));
      return runtime.text(content.part(at, at + size), object.is_safe());
    }
    runtime.budget.spend_characters(text.size());
    TextBuilder result(runtime.budget);
    for (int64_t i = 0; i < slice.count; ++i) {
      result.add(content, at, at + utf8_size(text[at]));
      if (i + 1 < slice.count) at = moved(text, at, slice.step);
    }
    return runtime.text(result.take(), object.is_safe());
  }
  if (object.is(Kind::kRange)) {
    const RangeObject& range = object.range();
    const Slice slice = slice_of(range.size(), begin, end, step);
    const int64_t by = slice.count > 1 ? range.step * slice.step : 1;
    const int64_t from = range.start + slice.begin * range.step;
    return Value::of(Kind::kRange, new RangeObject(from, from + slice.count * by, by));
  }
  if (!object.is(Kind::kList) && !object.is(Kind::kTuple)) {
    throw TemplateError(fmt::format("{} has no slices", type_name(object)));
  }
  const std::vector<Value>& items = object.items();
  const Slice slice = slice_of(static_cast<int64_t>(items.size()), begin, end, step);
  runtime.budget.spend_values(static_cast<size_t>(slice.count));
  std::vector<Value> result;
  for (int64_t i = 0; i < slice.count; ++i) {
    result.push_back(items[static_cast<size_t>(slice.begin + i * slice.step)]);
  }
  return object.is(Kind::kList) ? runtime.list(std::move(result))
                                : runtime.tuple(std::move(result));
}

Value call(Runtime& runtime, const Value& function, Arguments arguments) {
  require_defined(function);
  runtime.budget.spend_steps(1 + arguments.positional.size() + arguments.named.size());
  if (!function.is(Kind::kFunction) || !function.function().call) {
    throw TemplateError(fmt::format("{} cannot be called", type_name(function)));
  }
  return function.function().call(std::move(arguments));
}

Value arithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (op == "%" && a.is_string()) return format_percent(runtime, a, b);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? integer_arithmetic(op, a.as_int(), b.as_int())
                                              : float_arithmetic(op, a.as_double(), b.as_double());
  }
  if (a.is(Kind::kBigInt) || b.is(Kind::kBigInt)) beyond_64_bits();
  if (op == "+") return add(runtime, a, b);
  if (op == "*") return multiply(runtime, a, b);
  no_operator(op, a, b);
}

Value negative(const Value& value) {
  require_defined(value);
  if (value.is_integral()) return integer_arithmetic("-", 0, value.as_int());
  if (value.is(Kind::kFloat)) return Value::real(-value.as_double());
  if (value.is(Kind::kBigInt)) {
    const std::string& digits = value.text();
    if (digits == "9223372036854775808") return Value::integer(INT64_MIN);
    return Value::big_integer(digits.starts_with('-') ? digits.substr(1)
                                                      : fmt::format("-{}", digits));
  }
  throw TemplateError(fmt::format("there is no -{}", type_name(value)));
}
Value positive(const Value& value) {
  require_defined(value);
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is(Kind::kFloat) || value.is(Kind::kBigInt)) return value;
  throw TemplateError(fmt::format("there is no +{}", type_name(value)));
}

bool compare(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  Budget& budget = runtime.budget;
  if (op == "==") return equals(a, b, budget);
  if (op == "!=") return !equals(a, b, budget);
  if (op == "in") return contains(runtime, b, a);
  if (op == "not in") return !contains(runtime, b, a);
  require_defined(a);
  require_defined(b);
  if (op == "<") return is_less(a, b, budget);
  if (op == ">") return is_less(b, a, budget);
  const bool is_nan = (a.is(Kind::kFloat) && std::isnan(a.as_double())) ||
                      (b.is(Kind::kFloat) && std::isnan(b.as_double()));
  if (is_nan && a.is_number() && b.is_number()) return false;
  return op == "<=" ? !is_less(b, a, budget) : !is_less(a, b, budget);
}

}  // namespace pagedinfer::jinja
