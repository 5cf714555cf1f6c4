#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "jinja/filters.h"
#include "jinja/python_text.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

bool is_integer(const Value& value) { return value.is(Kind::kInt) || value.is(Kind::kBigInt); }
bool is_any_number(const Value& value) { return value.is_number() || value.is(Kind::kBigInt); }
bool is_sequence(const Value& value) {
  return is_iterable(value) && !value.is(Kind::kView) && !value.is(Kind::kIterator);
}
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is(Kind::kFunction) && value.function().call);
}
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_defined(const Value& value) { return !value.is_undefined(); }

bool remainder_is(Runtime& runtime, const Value& value, const Value& by, int64_t rest) {
  return equals(arithmetic(runtime, "%", value, by), Value::integer(rest), runtime.budget);
}

// Tests of a value alone.
struct SimpleTest {
  std::string_view name;
  bool (*test)(Runtime& runtime, const Value& value);
};
constexpr std::array kSimpleTests = std::to_array<SimpleTest>({
    {"boolean", [](Runtime&, const Value& value) { return is_boolean(value); }},
    {"callable", [](Runtime&, const Value& value) { return is_callable(value); }},
    {"defined", [](Runtime&, const Value& value) { return is_defined(value); }},
    {"escaped", [](Runtime&, const Value& value) { return value.is_safe(); }},
    {"even", [](Runtime& runtime,
                const Value& value) { return remainder_is(runtime, value, Value::integer(2), 0); }},
    {"false", [](Runtime&, const Value& value) { return is_boolean(value) && !value.as_bool(); }},
    {"filter",
     [](Runtime& runtime, const Value& value) {
       check_hashable(value, runtime.budget);
       return value.is_string() && is_filter(value.text());
     }},
    {"float", [](Runtime&, const Value& value) { return value.is(Kind::kFloat); }},
    {"integer", [](Runtime&, const Value& value) { return is_integer(value); }},
    {"iterable", [](Runtime&, const Value& value) { return is_iterable(value); }},
    {"lower",
     [](Runtime& runtime, const Value& value) {
       return is_text_in(Case::kLower, to_text(value, runtime.budget).text, runtime.budget);
     }},
    {"mapping", [](Runtime&, const Value& value) { return value.is(Kind::kDict); }},
    {"none", [](Runtime&, const Value& value) { return value.is_none(); }},
    {"number", [](Runtime&, const Value& value) { return is_any_number(value); }},
    {"odd", [](Runtime& runtime,
               const Value& value) { return remainder_is(runtime, value, Value::integer(2), 1); }},
    {"sequence", [](Runtime&, const Value& value) { return is_sequence(value); }},
    {"string", [](Runtime&, const Value& value) { return value.is_string(); }},
    {"test",
     [](Runtime& runtime, const Value& value) {
       check_hashable(value, runtime.budget);
       return value.is_string() && is_test(value.text());
     }},
    {"true", [](Runtime&, const Value& value) { return is_boolean(value) && value.as_bool(); }},
    {"undefined", [](Runtime&, const Value& value) { return value.is_undefined(); }},
    {"upper",
     [](Runtime& runtime, const Value& value) {
       return is_text_in(Case::kUpper, to_text(value, runtime.budget).text, runtime.budget);
     }},
});

// Tests that compare, and the operator that each is.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kComparisons = {{
    {"!=", "!="},
    {"<", "<"},
    {"<=", "<="},
    {"==", "=="},
    {">", ">"},
    {">=", ">="},
    {"eq", "=="},
    {"ge", ">="},
    {"gt", ">"},
    {"equalto", "=="},
    {"greaterthan", ">"},
    {"in", "in"},
    {"le", "<="},
    {"lt", "<"},
    {"lessthan", "<"},
    {"ne", "!="},
    {"sameas", "is"},
}};

}  // namespace

bool is_test(std::string_view name) {
  return name == "divisibleby" ||
         std::ranges::find(kSimpleTests, name, &SimpleTest::name) != kSimpleTests.end() ||
         std::ranges::any_of(kComparisons, [&](const auto& c) { return c.first == name; });
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& value,
                const Arguments& arguments) {
  spend_operands(runtime.budget, value, arguments);
  const auto simple = std::ranges::find(kSimpleTests, name, &SimpleTest::name);
  if (simple != kSimpleTests.end()) {
    const Bound bound(name, arguments, {});
    return simple->test(runtime, value);
  }
  if (name == "divisibleby") {
    const Bound bound(name, arguments, {"num"}, 1);
    return remainder_is(runtime, value, bound[0], 0);
  }
  for (const auto& [test, op] : kComparisons) {
    if (test != name) continue;
    const Bound bound(name, arguments, {name == "in" ? "seq" : "other"}, 1);
    return op == "is" ? is_same(value, bound[0]) : compare(runtime, op, value, bound[0]);
  }
  throw TemplateError(fmt::format("there is no test '{}'", name));
}

}  // namespace pagedinfer::jinja
