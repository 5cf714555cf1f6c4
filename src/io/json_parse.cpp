#include "io/json_parse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace pagedinfer {
namespace {

using simdjson::dom::element;
using simdjson::dom::parser;

constexpr std::string_view kMaxDouble = "1.7976931348623157e308";  // as a double
constexpr std::string_view kNames[] = {"NaN", "Infinity", "-Infinity"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_number(char c) {
  return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Whether `text` is a number by JSON's grammar.
bool is_number(std::string_view text) {
  const auto digits = [&] {
    const size_t count = std::min(text.size(), text.find_first_not_of("0123456789"));
    text.remove_prefix(count);
    return count;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0')) {
    text.remove_prefix(1);
  } else if (digits() == 0) {
    return false;
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty();
}

// Copies a JSON text and replaces the numbers that the parser refuses.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : rest_(text) {}

  std::string replaced() {
    while (!rest_.empty()) {
      if (rest_.front() == '"') {
        copy(string_size());
      } else if (const std::string_view name = name_here(); !name.empty()) {
        out_ += ' ';  // keeps it apart from a number beside it
        append_max(name);
        out_ += ' ';
        rest_.remove_prefix(name.size());
      } else if (rest_.front() == '-' || is_digit(rest_.front())) {
        number();
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  void copy(size_t size) {
    out_ += rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  // Appends the maximum of a double with the sign of `number`.
  void append_max(std::string_view number) {
    if (number.starts_with('-')) out_ += '-';
    out_ += kMaxDouble;
  }

  // Bytes of the string at the current place; up to the end of the text if it is not closed.
  size_t string_size() const {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, rest_.size());
  }

  std::string_view name_here() const {
    for (const std::string_view name : kNames) {
      if (rest_.starts_with(name)) return name;
    }
    return {};
  }

  void number() {
    const auto* const end = std::ranges::find_if_not(rest_, is_of_number);
    const std::string_view number = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    rest_.remove_prefix(number.size());
    if (is_readable(number) || !is_number(number)) {
      out_ += number;
    } else if (const std::string real = std::string(number) + ".0"; is_readable(real)) {
      out_ += real;
    } else {
      append_max(number);
    }
  }

  bool is_readable(std::string_view number) {
    constexpr size_t kAlways = 18;  // digits of an integer below 2^63
    if (number.size() <= kAlways && std::ranges::all_of(number, is_digit)) return true;
    return parser_.parse(simdjson::padded_string(number)).error() == simdjson::SUCCESS;
  }

  std::string_view rest_;
  std::string out_ = {};
  parser parser_;
};

}  // namespace

simdjson::simdjson_result<element> parse_model_json(parser& parser,
                                                    const simdjson::padded_string& text) {
  const auto parsed = parser.parse(text);
  if (parsed.error() == simdjson::SUCCESS) return parsed;
  return parser.parse(simdjson::padded_string(Numbers(std::string_view(text)).replaced()));
}

bool is_beyond_double(element value) {
  double number = 0;
  return value.is_double() && value.get(number) == simdjson::SUCCESS &&
         std::abs(number) == std::numeric_limits<double>::max();
}

}  // namespace pagedinfer
