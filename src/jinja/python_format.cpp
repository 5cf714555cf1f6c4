#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "core/utf8.h"
#include "jinja/characters.h"
#include "jinja/marked_text.h"
#include "jinja/numbers.h"
#include "jinja/python_text.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

constexpr int64_t kMaxPrecision = 4'000;
constexpr size_t kFormatFloatSteps = 8;  // of writing one

// How a value is written: of `%5.2f` and of `{:>5.2f}`.
struct Spec {
  MarkedText fill = marked_text(" ", false);
  char align = 0;  // < > ^ =, 0 = as the type has it
  char sign = '-';
  bool alternate = false;
  bool zeros = false;
  int64_t width = 0;
  char grouping = 0;
  int64_t precision = -1;
  char type = 0;
};

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  char take() { return done() ? '\0' : text_[at_++]; }
  bool take_if(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool is_digit() const { return peek() >= '0' && peek() <= '9'; }
  // Digits as a number; -1 without any.
  int64_t number() {
    if (!is_digit()) return -1;
    int64_t result = 0;
    while (is_digit()) {
      result = result * 10 + (take() - '0');
      if (result > INT32_MAX) throw TemplateError("a number in a format is too large");
    }
    return result;
  }
  size_t at() const { return at_; }
  void skip(size_t size) { at_ += size; }
  std::string_view rest() const { return text_.substr(at_); }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::string upper_ascii(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

// The digits of a float without its sign.
std::string float_digits(double number, char type, int64_t precision, bool alternate,
                         Budget& budget) {
  if (precision > kMaxPrecision) throw TemplateError("a precision in a format is too large");
  budget.spend_steps(kFormatFloatSteps + static_cast<size_t>(std::max<int64_t>(precision, 0)));
  const double value = std::abs(number);
  const bool upper = type >= 'A' && type <= 'Z';
  const char lower = upper ? static_cast<char>(type - 'A' + 'a') : type;
  if (!std::isfinite(value)) {
    const std::string text = std::isnan(value) ? "nan" : "inf";
    return upper ? upper_ascii(text) : text;
  }
  const auto digits = static_cast<int>(precision < 0 ? 6 : precision);
  std::string text;
  if (lower == 'e') {
    text =
        alternate ? fmt::format("{:#.{}e}", value, digits) : fmt::format("{:.{}e}", value, digits);
  } else if (lower == 'f') {
    text =
        alternate ? fmt::format("{:#.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
  } else {
    text = alternate ? fmt::format("{:#.{}g}", value, std::max(digits, 1))
                     : fmt::format("{:.{}g}", value, std::max(digits, 1));
  }
  return upper ? upper_ascii(text) : text;
}

std::string integer_digits(uint64_t magnitude, char type, bool alternate) {
  switch (type) {
    case 'x': return fmt::format("{}{:x}", alternate ? "0x" : "", magnitude);
    case 'X': return fmt::format("{}{:X}", alternate ? "0X" : "", magnitude);
    case 'o': return fmt::format("{}{:o}", alternate ? "0o" : "", magnitude);
    case 'b': return fmt::format("{}{:b}", alternate ? "0b" : "", magnitude);
    default: return std::to_string(magnitude);
  }
}

uint64_t magnitude_of(int64_t number) {
  return number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
}

std::string sign_of(bool negative, char sign) {
  return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

// Fills up to the width; `=` puts the fill behind the sign and a prefix, of `head` bytes.
MarkedText padded(const MarkedText& text, const Spec& spec, char align, size_t head,
                  Budget& budget) {
  const int64_t missing = spec.width - num_characters(text.text);
  if (missing <= 0) return text;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  TextBuilder out(budget);
  out.add(text, 0, align == '=' ? head : 0);
  out.add_repeated(spec.fill, left);
  out.add(text, align == '=' ? head : 0, text.text.size());
  out.add_repeated(spec.fill, missing - left);
  return out.take();
}

MarkedText repr(const Value& value, Budget& budget) {
  TextBuilder text(budget);
  append_repr(text, value, budget);
  return text.take();
}

// ascii(value)
MarkedText ascii_repr(const Value& value, Budget& budget) {
  const MarkedText text = repr(value, budget);
  TextBuilder out(budget);
  for_characters(text.text, [&](char32_t c, size_t begin, size_t end) {
    if (c < 0x80) return out.add(text, begin, end);
    out.add(escape_of(c), text.any_marked(begin, end));
  });
  return out.take();
}

bool is_character(int64_t code) {
  return code >= 0 && code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
}

size_t head_size(std::string_view text) {
  size_t size = text.find_first_of("+- ") == 0 ? 1 : 0;
  const std::string_view rest = text.substr(size);
  if (rest.size() > 2 && rest[0] == '0' &&
      std::string_view("xXob").find(rest[1]) != std::string::npos) {
    size += 2;
  }
  return size;
}

// format % values.
class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Value& format, const Value& values)
      : runtime_(runtime),
        format_(format),
        values_(values),
        cursor_(format.text()),
        out_(runtime.budget) {}

  Value formatted() {
    size_t done = 0;
    while (!cursor_.done()) {
      runtime_.budget.spend_steps();
      const size_t at = cursor_.at();
      if (cursor_.take() != '%') continue;
      out_.add(format_.marked(), done, at);
      conversion();
      done = cursor_.at();
    }
    out_.add(format_.marked(), done, format_.text().size());
    const bool used =
        values_.is(Kind::kTuple) ? next_ == values_.items().size() : next_ == 1 || is_mapping();
    if (!used) throw TemplateError("not all values of a format with % are used");
    return runtime_.text(out_.take(), format_.is_safe());
  }

 private:
  bool is_mapping() const {
    return values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kRange) ||
           values_.is_undefined();
  }

  Value next_value() {
    if (by_key_) return keyed_;
    if (values_.is(Kind::kTuple)) {
      if (next_ == values_.items().size()) throw TemplateError("not enough values for a format");
      return values_.items()[next_++];
    }
    if (next_ == 1) throw TemplateError("not enough values for a format");
    next_ = 1;
    return values_;
  }
  int64_t number_or_star() {
    if (!cursor_.take_if('*')) return cursor_.number();
    const Value value = next_value();
    if (!value.is_integral()) throw TemplateError("* in a format wants an integer");
    return std::clamp<int64_t>(value.as_int(), INT32_MIN, INT32_MAX);
  }

  void key() {
    std::string name;
    int depth = 1;
    while (true) {
      if (cursor_.done()) throw TemplateError("a key in a format is not closed");
      const char c = cursor_.take();
      if (c == '(') ++depth;
      if (c == ')' && --depth == 0) break;
      name += c;
    }
    if (!values_.is(Kind::kDict)) throw TemplateError("a format with keys expects a dict");
    const Value* found = values_.entries().find(name);
    if (found == nullptr) throw TemplateError(fmt::format("a format finds no key '{}'", name));
    keyed_ = *found;
    by_key_ = true;
  }

  void conversion() {
    Spec spec;
    by_key_ = false;
    if (cursor_.take_if('(')) key();
    bool left = false;
    for (bool flags = true; flags;) {
      switch (cursor_.peek()) {
        case '-': left = true; break;
        case '+': spec.sign = '+'; break;
        case ' ': spec.sign = spec.sign == '+' ? '+' : ' '; break;
        case '#': spec.alternate = true; break;
        case '0': spec.zeros = true; break;
        default: flags = false;
      }
      if (flags) cursor_.take();
    }
    spec.width = number_or_star();
    if (spec.width < 0) {
      left = left || spec.width < -1;
      spec.width = spec.width == -1 ? 0 : -spec.width;
    }
    if (cursor_.take_if('.')) spec.precision = std::max<int64_t>(number_or_star(), 0);
    if (cursor_.peek() == 'h' || cursor_.peek() == 'l' || cursor_.peek() == 'L') cursor_.take();
    if (cursor_.done()) throw TemplateError("a format ends in the middle");
    spec.type = cursor_.take();
    if (spec.type == '%') return out_.add("%");
    const Value value = next_value();
    const bool number = std::string_view("diuxXoeEfFgG").find(spec.type) != std::string::npos;
    const MarkedText text = number ? numeric(value, spec) : textual(value, spec);
    if (spec.zeros && number && !left) spec.fill = marked_text("0", false);
    out_.add(padded(text, spec,
                    left                   ? '<'
                    : spec.zeros && number ? '='
                                           : '>',
                    head_size(text.text), runtime_.budget));
  }

  MarkedText textual(const Value& value, const Spec& spec) {
    MarkedText text;
    if (spec.type == 's') {
      text = to_text(value, runtime_.budget);
    } else if (spec.type == 'r') {
      text = repr(value, runtime_.budget);
    } else if (spec.type == 'a') {
      text = ascii_repr(value, runtime_.budget);
    } else if (spec.type == 'c') {
      text = character(value);
    } else {
      throw TemplateError(fmt::format("%{} in a format is not supported", spec.type));
    }
    if (format_.is_safe() && !value.is_safe()) text = escape_html(text, runtime_.budget);
    if (spec.precision < 0 || spec.type == 'c') return text;
    return text.part(0, character_offset(text.text, static_cast<size_t>(spec.precision)));
  }

  static MarkedText character(const Value& value) {
    if (value.is_string() && num_characters(value.text()) == 1) return value.marked();
    if (!value.is_integral() || !is_character(value.as_int())) {
      throw TemplateError("%c in a format wants a character");
    }
    MarkedText text;
    append_utf8(text.text, static_cast<char32_t>(value.as_int()));
    return text;
  }

  MarkedText numeric(const Value& value, const Spec& spec) {
    require_defined(value);
    const bool whole = std::string_view("diuxXo").find(spec.type) != std::string::npos;
    const bool hexadecimal = spec.type == 'x' || spec.type == 'X' || spec.type == 'o';
    if (!value.is_number() || (hexadecimal && !value.is_integral())) {
      throw TemplateError(
          fmt::format("%{} in a format wants a number, found {}", spec.type, type_name(value)));
    }
    if (!whole) {
      const double number = value.as_double();
      return marked_text(
          sign_of(std::signbit(number) && !std::isnan(number), spec.sign) +
              float_digits(number, spec.type, spec.precision, spec.alternate, runtime_.budget),
          false);
    }
    const int64_t number = value.is_integral() ? value.as_int() : truncated(value.as_double());
    std::string digits = integer_digits(magnitude_of(number), spec.type, spec.alternate);
    if (spec.precision > kMaxPrecision) throw TemplateError("a precision in a format is too large");
    const size_t prefix = spec.alternate && hexadecimal ? 2 : 0;
    if (static_cast<int64_t>(digits.size() - prefix) < spec.precision) {
      digits.insert(prefix, static_cast<size_t>(spec.precision) - (digits.size() - prefix), '0');
    }
    return marked_text(sign_of(number < 0, spec.sign) + digits, false);
  }

  Runtime& runtime_;
  const Value& format_;
  const Value& values_;
  Cursor cursor_;
  size_t next_ = 0;
  bool by_key_ = false;
  Value keyed_ = {};
  TextBuilder out_;
};

// [[fill]align][sign][#][0][width][grouping][.precision][type]
Spec parse_spec(const MarkedText& spec_text) {
  const std::string& text = spec_text.text;
  Spec spec;
  Cursor cursor(text);
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    const size_t first = utf8_size(text[0]);
    if (first < text.size() && is_align(text[first])) {
      spec.fill = spec_text.part(0, first);
      cursor.skip(first);
      spec.align = cursor.take();
    } else if (is_align(text[0])) {
      spec.align = cursor.take();
    }
  }
  if (cursor.peek() == '+' || cursor.peek() == '-' || cursor.peek() == ' ') {
    spec.sign = cursor.take();
    if (spec.sign == '-') spec.sign = 'm';  // given, which strings do not allow
  }
  spec.alternate = cursor.take_if('#');
  if (cursor.take_if('0')) {
    spec.zeros = true;
    if (spec.align == 0) {
      spec.align = '=';
      spec.fill = marked_text("0", false);
    }
  }
  spec.width = std::max<int64_t>(cursor.number(), 0);
  if (cursor.peek() == ',' || cursor.peek() == '_') spec.grouping = cursor.take();
  if (cursor.take_if('.')) {
    spec.precision = cursor.number();
    if (spec.precision < 0) throw TemplateError("a format lacks its precision");
  }
  if (!cursor.done()) spec.type = cursor.take();
  if (!cursor.done()) throw TemplateError(fmt::format("the format '{}' is not valid", text));
  return spec;
}

void group_digits(std::string& digits, char separator, size_t size) {
  size_t whole = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (size == 3) whole = digits.find_first_not_of("0123456789");
  if (whole == std::string::npos) whole = digits.size();
  for (size_t at = whole; at > size;) {
    at -= size;
    digits.insert(at, 1, separator);
  }
}

std::string general_digits(double number, const Spec& spec, Budget& budget) {
  budget.spend_steps(kFormatFloatSteps);
  if (spec.type == 0 && spec.precision < 0) return float_repr(std::abs(number));
  if (spec.type != 0) {
    return float_digits(number, spec.type == 'n' ? 'g' : spec.type, spec.precision, spec.alternate,
                        budget);
  }
  std::string digits = float_digits(number, 'g', spec.precision, spec.alternate, budget);
  if (digits.find_first_of(".einf") == std::string::npos) digits += ".0";
  return digits;
}

[[noreturn]] void bad_type(const Spec& spec, const Value& value) {
  throw TemplateError(
      fmt::format("the format type '{}' is not valid for {}", spec.type, type_name(value)));
}

MarkedText format_character(const Value& value, const Spec& spec, Budget& budget) {
  const bool plain =
      spec.sign == '-' && !spec.alternate && spec.grouping == 0 && spec.precision < 0;
  if (!plain || !is_character(value.as_int())) bad_type(spec, value);
  MarkedText text;
  append_utf8(text.text, static_cast<char32_t>(value.as_int()));
  return padded(text, spec, spec.align == 0 ? '>' : spec.align, 0, budget);
}

MarkedText format_number(const Value& value, const Spec& spec, Budget& budget) {
  const char sign = spec.sign == 'm' ? '-' : spec.sign;
  std::string digits;
  bool negative = false;
  size_t prefix = 0;
  const bool float_type =
      value.is(Kind::kFloat) || std::string_view("eEfFgG%").find(spec.type) != std::string::npos;
  if (float_type && !(value.is_integral() && spec.type == 0)) {
    const double number = value.as_double() * (spec.type == '%' ? 100 : 1);
    negative = std::signbit(number) && !std::isnan(number);
    if (spec.type == '%') {
      digits = float_digits(number, 'f', spec.precision, spec.alternate, budget) + "%";
    } else if (std::string_view("eEfFgGn").find(spec.type) != std::string::npos || spec.type == 0) {
      digits = general_digits(number, spec, budget);
    } else {
      bad_type(spec, value);
    }
    if (spec.grouping != 0) group_digits(digits, spec.grouping, 3);
  } else {
    if (spec.type == 'c') return format_character(value, spec, budget);
    if (spec.type != 0 && std::string_view("bdoxXn").find(spec.type) == std::string::npos) {
      bad_type(spec, value);
    }
    if (spec.precision >= 0) throw TemplateError("a format of an integer has no precision");
    negative = value.as_int() < 0;
    digits = integer_digits(magnitude_of(value.as_int()), spec.type, false);
    const bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n';
    if (spec.grouping == ',' && !decimal) bad_type(spec, value);
    if (spec.grouping != 0) group_digits(digits, spec.grouping, decimal ? 3 : 4);
    if (spec.alternate && !decimal) {
      digits = std::string("0") + spec.type + digits;
      prefix = 2;
    }
  }
  if (spec.grouping != 0 && spec.zeros) {
    throw TemplateError("a format with both zeros and separators is not supported");
  }
  const std::string signs = sign_of(negative, sign);
  return padded(marked_text(signs + digits, false), spec, spec.align == 0 ? '>' : spec.align,
                signs.size() + prefix, budget);
}

MarkedText format_value(const Value& value, const MarkedText& spec_text, Budget& budget) {
  if (spec_text.text.empty()) return to_text(value, budget);
  if (!value.is_string() && !value.is_number()) {
    throw TemplateError(fmt::format("{} cannot be formatted with a format", type_name(value)));
  }
  const Spec spec = parse_spec(spec_text);
  if (value.is_number()) return format_number(value, spec, budget);
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.sign != '-' ||
      spec.alternate || spec.grouping != 0) {
    bad_type(spec, value);
  }
  MarkedText text = to_text(value, budget);
  if (spec.precision >= 0) {
    text = text.part(0, character_offset(text.text, static_cast<size_t>(spec.precision)));
  }
  return padded(text, spec, spec.align == 0 ? '<' : spec.align, 0, budget);
}

// format.format(...).
class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments)
      : runtime_(runtime), safe_(format.is_safe()), arguments_(arguments) {}

  // `levels`: how deep fields may still be nested.
  MarkedText formatted(const MarkedText& format, int levels) {
    if (levels < 0) throw TemplateError("fields of a format are nested too deep");
    const std::string& text = format.text;
    TextBuilder out(runtime_.budget);
    for (size_t at = 0; at < text.size();) {
      runtime_.budget.spend_steps();
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.add(format, at, brace);
      if (brace == text.size()) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.add(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') throw TemplateError("a single '}' in a format");
      const size_t end = field_end(text, brace + 1);
      out.add(field(format.part(brace + 1, end), levels));
      at = end + 1;
    }
    return out.take();
  }

 private:
  static size_t field_end(std::string_view text, size_t at) {
    int depth = 1;
    bool in_brackets = false;
    bool in_spec = false;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (in_brackets) {
        in_brackets = c != ']';
      } else if (c == '[' && !in_spec && depth == 1) {
        in_brackets = true;
      } else if (c == ':' || c == '!') {
        in_spec = true;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}' && --depth == 0) {
        return at;
      }
    }
    throw TemplateError("a field of a format is not closed");
  }

  MarkedText field(const MarkedText& field, int levels) {
    const std::string& text = field.text;
    size_t end = 0;
    for (bool in_brackets = false; end < text.size(); ++end) {
      if (in_brackets) {
        in_brackets = text[end] != ']';
      } else if (text[end] == '[') {
        in_brackets = true;
      } else if (text[end] == ':' || text[end] == '!') {
        break;
      } else if (text[end] == '{') {
        throw TemplateError("an unexpected '{' in a field of a format");
      }
    }
    Value value = lookup(std::string_view(text).substr(0, end));
    char conversion = 0;
    if (end < text.size() && text[end] == '!') {
      if (end + 1 == text.size()) throw TemplateError("a conversion in a format is missing");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') {
        throw TemplateError("a conversion in a format is one letter");
      }
    }
    MarkedText spec;
    if (end < text.size()) spec = formatted(field.part(end + 1, text.size()), levels - 1);
    if (conversion == 's') {
      value = runtime_.text(to_text(value, runtime_.budget));
    } else if (conversion == 'r') {
      value = runtime_.text(repr(value, runtime_.budget));
    } else if (conversion == 'a') {
      value = runtime_.text(ascii_repr(value, runtime_.budget));
    } else if (conversion != 0) {
      throw TemplateError(
          fmt::format("the conversion !{} in a format is not supported", conversion));
    }
    MarkedText result = format_value(value, spec, runtime_.budget);
    if (safe_ && !value.is_safe()) result = escape_html(result, runtime_.budget);
    return result;
  }

  Value lookup(std::string_view path) {
    const size_t first_end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, first_end));
    path.remove_prefix(first_end);
    while (!path.empty()) {
      runtime_.budget.spend_steps();
      if (path[0] == '.') {
        const size_t end = std::min(path.find_first_of(".[", 1), path.size());
        if (end == 1) throw TemplateError("an attribute in a format is empty");
        value = get_attribute(runtime_, value, path.substr(1, end - 1));
        path.remove_prefix(end);
      } else if (path[0] == '[') {
        const size_t end = path.find(']');
        if (end == std::string_view::npos || end == 1) {
          throw TemplateError("an index in a format is empty or not closed");
        }
        const std::string_view index = path.substr(1, end - 1);
        value = get_item(runtime_, value,
                         is_number(index) ? Value::integer(parse_integer(index, 10).value_or(0))
                                          : Value::string(std::string(index)));
        path.remove_prefix(end + 1);
        if (!path.empty() && path[0] != '.' && path[0] != '[') {
          throw TemplateError("only '.' or '[' may follow ']' in a format");
        }
      } else {
        throw TemplateError("a field of a format is not valid");
      }
    }
    return value;
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value first(std::string_view name) {
    if (name.empty() || is_number(name)) {
      const bool automatic = name.empty();
      if ((automatic && manual_) || (!automatic && next_ > 0)) {
        throw TemplateError("a format mixes numbered fields with others");
      }
      if (!automatic) manual_ = true;
      const size_t i =
          automatic ? next_++ : static_cast<size_t>(parse_integer(name, 10).value_or(0));
      if (i >= arguments_.positional.size()) {
        throw TemplateError(fmt::format("a format finds no value {}", i));
      }
      return arguments_.positional[i];
    }
    for (const auto& [key, value] : arguments_.named) {
      runtime_.budget.spend_steps();
      if (key == name) return value;
    }
    throw TemplateError(fmt::format("a format finds no value '{}'", name));
  }

  Runtime& runtime_;
  bool safe_;
  const Arguments& arguments_;
  size_t next_ = 0;
  bool manual_ = false;
};

// The end of the code of strftime(), or of the character, that begins at `at`.
size_t code_end(std::string_view text, size_t at) {
  if (text[at] != '%') return at + 1;
  at = std::min(text.find_first_not_of("_-+^#0123456789", at + 1), text.size());
  if (at < text.size() && (text[at] == 'E' || text[at] == 'O')) ++at;
  return std::min(at + 1, text.size());
}

// What the C library is asked for.
std::string code_of(std::string_view code) {
  if (code == "%f") return "000000";
  if (code.size() < 2 || code[0] != '%') return std::string(code);
  if (code.back() == 's') throw TemplateError("%s in a time's format is not supported");
  return code == "%z" || code == "%Z" ? "" : std::string(code);
}

std::string strftime_text(const std::string& format, const DateTime& now, Budget& budget) {
  if (format.empty()) return {};
  std::tm time = {};
  time.tm_year = now.year - 1900;
  time.tm_mon = now.month - 1;
  time.tm_mday = now.day;
  time.tm_hour = now.hour;
  time.tm_min = now.minute;
  time.tm_sec = now.second;
  timegm(&time);       // sets the day of the week and of the year
  time.tm_isdst = -1;  // no zone
  time.tm_zone = "";
  const std::string text = fmt::format("{}.", format);  // an empty result is told from no room
  const size_t room = 1024 + 64 * format.size();
  budget.spend_steps(room / 16);
  budget.spend_text(room);
  std::string result(room, '\0');
  const size_t size = std::strftime(result.data(), result.size(), text.c_str(), &time);
  if (size == 0) throw TemplateError("a formatted time is too long");
  result.resize(size - 1);
  return result;
}

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& values) {
  return PercentFormat(runtime, format, values).formatted();
}

Value format_braces(Runtime& runtime, const Value& format, const Arguments& arguments) {
  constexpr int kMaxLevels = 1;
  BraceFormat braces(runtime, format, arguments);
  return runtime.text(braces.formatted(format.marked(), kMaxLevels), format.is_safe());
}

MarkedText format_time(const MarkedText& format, const DateTime& now, Budget& budget) {
  constexpr size_t kMaxFormat = size_t{64} << 10;
  const std::string& text = format.text;
  if (text.size() > kMaxFormat) {
    throw TemplateError(fmt::format("a time's format has more than {} bytes", kMaxFormat));
  }
  if (text.find('\0') != std::string::npos) {
    throw TemplateError("a time's format has a zero byte");
  }
  TextBuilder out(budget);
  std::string piece;  // of which all is marked, or nothing
  bool piece_marked = false;
  const auto flush = [&] {
    out.add(strftime_text(piece, now, budget), piece_marked);
    piece.clear();
  };
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = code_end(text, begin);
    const bool marked = format.any_marked(begin, end);
    if (marked != piece_marked) flush();
    piece_marked = marked;
    piece += code_of(std::string_view(text).substr(begin, end - begin));
  }
  flush();
  return out.take();
}

}  // namespace pagedinfer::jinja
