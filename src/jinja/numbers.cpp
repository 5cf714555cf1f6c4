#include "jinja/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "jinja/budget.h"
#include "jinja/characters.h"

namespace pagedinfer::jinja {
namespace {

bool is_ascii_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The text without its underscores, each of which must stand between two digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_ascii_alphanumeric(text[i - 1]) ||
               !is_ascii_alphanumeric(text[i + 1])) {
      return std::nullopt;
    }
  }
  return result;
}

// The base that a prefix such as 0x names; 10 without one.
int base_of(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  const char letter = static_cast<char>(digits[1] | 0x20);
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  text = strip_right(strip_left(text));
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix_base = base_of(text);
  if (prefix_base != 10 && (base == 0 || base == prefix_base)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = prefix_base;
  } else if (base == 0) {
    base = 10;
    // 007 is no integer, but 000 is.
    if (text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of("0_") != std::string_view::npos) {
      return std::nullopt;
    }
  }
  if (base < 2 || base > 36) throw TemplateError("the base of an integer is from 2 to 36, or 0");
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty() || digits->front() == '-') return std::nullopt;
  uint64_t number = 0;
  const char* const end = digits->data() + digits->size();
  const auto parsed = std::from_chars(digits->data(), end, number, base);
  if (parsed.ptr != end) return std::nullopt;
  constexpr auto kMax = static_cast<uint64_t>(INT64_MAX);
  if (parsed.ec != std::errc() || number > kMax + (negative ? 1 : 0)) {
    throw TemplateError("integers beyond 64 bits are not supported");
  }
  return negative ? static_cast<int64_t>(~number + 1) : static_cast<int64_t>(number);
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> plain = without_underscores(strip_right(strip_left(text)));
  if (!plain || plain->empty()) return std::nullopt;
  // What strtod() reads and Python does not: hexadecimal digits, a payload of NaN.
  if (plain->find_first_of("xX()") != std::string::npos) return std::nullopt;
  if (is_python_space(static_cast<unsigned char>(plain->front()))) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return number;
}

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char digits[64];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, number, std::chars_format::scientific);
  std::string text(digits, end.ptr);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  constexpr int kMinExponent = -4, kMaxExponent = 15;  // written without an exponent
  if (exponent < kMinExponent || exponent > kMaxExponent) return text;
  const std::string sign = text.starts_with('-') ? "-" : "";
  std::string mantissa = text.substr(sign.size(), e - sign.size());
  std::erase(mantissa, '.');
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + mantissa;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (mantissa.size() <= whole) {
    return sign + mantissa + std::string(whole - mantissa.size(), '0') + ".0";
  }
  return sign + mantissa.substr(0, whole) + "." + mantissa.substr(whole);
}

int64_t truncated(double number) {
  if (std::isnan(number)) throw TemplateError("nan is no integer");
  if (std::isinf(number)) throw TemplateError("infinity is no integer");
  constexpr double kLimit = 9223372036854775808.0;
  if (number < -kLimit || number >= kLimit) {
    throw TemplateError("integers beyond 64 bits are not supported");
  }
  return static_cast<int64_t>(number);
}

double rounded(double number, int64_t digits) {
  constexpr int64_t kMaxDigits = 400;
  if (!std::isfinite(number) || digits > kMaxDigits) return number;
  if (digits < -kMaxDigits) return std::copysign(0.0, number);
  if (digits >= 0) {
    // The decimal digits of a double are exact here, ties go to even.
    return std::strtod(fmt::format("{:.{}f}", number, digits).c_str(), nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / unit) * unit;
}

}  // namespace pagedinfer::jinja
