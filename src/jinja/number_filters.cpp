#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "jinja/filters.h"
#include "jinja/numbers.h"

namespace pagedinfer::jinja {
namespace {

Value absolute(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (value.is(Kind::kFloat)) return Value::real(std::abs(value.as_double()));
  if (!value.is_integral()) {
    throw TemplateError(fmt::format("abs expects a number, found {}", type_name(value)));
  }
  return value.as_int() < 0 ? negative(value) : positive(value);
}

// float(value). Nothing where Python finds no number in it.
std::optional<double> number_of(const Value& value) {
  require_defined(value);
  if (value.is_number()) return value.as_double();
  if (value.is(Kind::kBigInt) || value.is_string()) return parse_float(value.text());
  return std::nullopt;
}

Value to_float(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (const std::optional<double> number = number_of(value)) return Value::real(*number);
  return bound.has(0) ? bound[0] : Value::real(0);
}

Value to_int(Runtime&, const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value otherwise = bound.has(0) ? bound[0] : Value::integer(0);
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is(Kind::kBigInt)) return value;
  if (value.is_string()) {
    const int64_t base = bound.integer(1, 10);
    if (base == 0 || (base >= 2 && base <= 36)) {
      const auto number = parse_integer(value.text(), static_cast<int>(base));
      if (number) return Value::integer(*number);
    }
  }
  const std::optional<double> number = number_of(value);
  if (!number || !std::isfinite(*number)) return otherwise;
  return Value::integer(truncated(*number));
}

Value round(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::string method = bound.has(1) ? bound.string(1).text : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    throw TemplateError("round expects the method 'common', 'ceil' or 'floor'");
  }
  if (!value.is_number()) {
    throw TemplateError(fmt::format("round expects a number, found {}", type_name(value)));
  }
  const int64_t precision = bound.integer(0, 0);
  constexpr int64_t kMaxSteps = 400;  // of writing and reading that many digits
  runtime.budget.spend_steps(static_cast<size_t>(std::clamp<int64_t>(precision, 8, kMaxSteps)));
  if (method == "common") {
    if (value.is(Kind::kFloat)) return Value::real(rounded(value.as_double(), precision));
    if (precision >= 0) return Value::integer(value.as_int());
    constexpr int64_t kMaxDigits = 18;
    if (precision < -kMaxDigits) return Value::integer(0);
    int64_t unit = 1;
    for (int64_t i = 0; i < -precision; ++i) unit *= 10;
    int64_t rest = value.as_int() % unit;
    if (rest < 0) rest += unit;
    const auto floor = static_cast<__int128>(value.as_int()) - rest;
    const bool is_odd = (floor / unit) % 2 != 0;
    const bool up = rest > unit / 2 || (unit > 1 && rest == unit / 2 && is_odd);
    const __int128 result = up ? floor + unit : floor;
    if (result > INT64_MAX || result < INT64_MIN) {
      throw TemplateError("integers beyond 64 bits are not supported");
    }
    return Value::integer(static_cast<int64_t>(result));
  }
  constexpr int64_t kMaxPrecision = 300;
  if (std::abs(precision) > kMaxPrecision) throw TemplateError("round expects fewer digits");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * unit;
  if (!std::isfinite(scaled)) throw TemplateError("round expects a finite number");
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::real((whole == 0 ? 0.0 : whole) / unit);
}

constexpr std::array kNumberFilters = std::to_array<NamedFilter>({
    {"abs", absolute},
    {"float", to_float},
    {"int", to_int},
    {"round", round},
});

}  // namespace

std::span<const NamedFilter> number_filters() { return kNumberFilters; }

}  // namespace pagedinfer::jinja
