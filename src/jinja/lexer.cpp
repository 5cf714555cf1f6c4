#include "jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "jinja/budget.h"
#include "jinja/characters.h"
#include "text/unicode/utf8.h"

namespace pagedinfer::jinja {
namespace {

constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) {
  return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// One kind of line end, and not the last one of the template.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> tokens() {
    while (at_ < source_.size()) root();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(message, line_); }

  void add(TokenKind kind, std::string_view text) {
    tokens_.push_back({kind, std::string(text), line_});
  }
  void skip(size_t size) {
    const auto begin = source_.begin() + static_cast<ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<ptrdiff_t>(size), '\n'));
    at_ += size;
  }
  // Goes behind a tag's end, of `size` bytes, and what it removes.
  void skip_tag_end(size_t size, bool strip, bool trim) {
    skip(size);
    if (strip) {
      skip(rest().size() - strip_left(rest()).size());
    } else if (trim && sees("\n")) {
      skip(1);
    }
    line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  // The size of `{%- name -%}` at the beginning of `text`, up to the name; 0 if it is another tag.
  static size_t tag_size(std::string_view text, std::string_view name) {
    const size_t all = text.size();
    if (!text.starts_with("{%")) return 0;
    text.remove_prefix(2);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    text = strip_left(text);
    if (!text.starts_with(name)) return 0;
    text.remove_prefix(name.size());
    return all - strip_left(text).size();
  }

  // Text up to the next tag, and the tag.
  void root() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        add(TokenKind::kData, rest());
        skip(rest().size());
        return;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const char type = source_[tag + 1];
    data(tag, type != '{');
    const char sign = at_ + 2 < source_.size() ? source_[at_ + 2] : ' ';
    const size_t begin = sign == '-' || sign == '+' ? 3 : 2;
    if (type == '#') return comment(begin);
    if (type == '%') {
      if (const size_t size = tag_size(rest(), "raw")) {
        const std::string_view end = rest().substr(size);
        if (end.starts_with("-%}")) return raw(size + 3, true);
        if (end.starts_with("%}")) return raw(size + 2, false);
      }
    }
    const bool print = type == '{';
    add(print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    skip(begin);
    expressions(print);
  }

  // The text before the tag at `tag`, less what the tag removes.
  void data(size_t tag, bool strips_line) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && strips_line) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_start_) && strip_left(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenKind::kData, text);
    skip(tag - at_);
  }

  void comment(size_t begin) {
    const size_t end = source_.find("#}", at_ + begin);
    if (end == std::string::npos) fail("a comment is not closed");
    const char sign = end > at_ + begin ? source_[end - 1] : ' ';
    skip(end - at_);
    skip_tag_end(2, sign == '-', sign != '+');
  }

  void raw(size_t begin, bool strip) {
    skip_tag_end(begin, strip, false);
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const std::string_view from_tag = std::string_view(source_).substr(tag);
      const size_t size = tag_size(from_tag, "endraw");
      if (size == 0) continue;
      const std::string_view end = from_tag.substr(size);
      const size_t end_size = end.starts_with("-%}") || end.starts_with("+%}") ? 3
                              : end.starts_with("%}")                          ? 2
                                                                               : 0;
      if (end_size == 0) continue;
      data(tag, true);
      return skip_tag_end(size + end_size, end.starts_with('-'), end_size == 2);
    }
    fail("{% raw %} is not closed");
  }

  // Whether the tag ends here; then goes behind it.
  bool tag_ended(bool print) {
    const std::string_view end = print ? "}}" : "%}";
    const bool has_sign = !sees(end) && at_ < source_.size() && rest().substr(1).starts_with(end) &&
                          (source_[at_] == '-' || (source_[at_] == '+' && !print));
    if (!sees(end) && !has_sign) return false;
    const bool strip = has_sign && source_[at_] == '-';
    add(print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
    skip_tag_end(has_sign ? 3 : 2, strip, !print && !has_sign);
    return true;
  }

  void expressions(bool print) {
    std::string brackets;  // that are open: what closes each
    while (at_ < source_.size()) {
      if (brackets.empty() && tag_ended(print)) return;
      if (const size_t space = rest().size() - strip_left(rest()).size()) {
        skip(space);
      } else if (is_ascii_digit(source_[at_])) {
        number();
      } else if (source_[at_] == '\'' || source_[at_] == '"') {
        string();
      } else if (!name()) {
        operation(brackets);
      }
    }
  }

  // Digits with single underscores between them: their end, or `from`.
  template <class IsDigit>
  size_t digits_end(size_t from, IsDigit is_valid) const {
    size_t i = from;
    while (i < source_.size()) {
      if (is_valid(source_[i])) {
        ++i;
      } else if (source_[i] == '_' && i > from && i + 1 < source_.size() &&
                 is_valid(source_[i + 1])) {
        i += 2;
      } else {
        break;
      }
    }
    return i;
  }

  void number() {
    const size_t whole = digits_end(at_, is_ascii_digit);
    size_t end = whole;
    const auto byte = [&](size_t i) { return i < source_.size() ? source_[i] : ' '; };
    const bool may_be_float = at_ == 0 || source_[at_ - 1] != '.';
    if (may_be_float) {
      if (byte(end) == '.' && is_ascii_digit(byte(end + 1))) {
        end = digits_end(end + 1, is_ascii_digit);
      }
      if (byte(end) == 'e' || byte(end) == 'E') {
        const size_t digits = end + (byte(end + 1) == '-' || byte(end + 1) == '+' ? 2 : 1);
        if (is_ascii_digit(byte(digits))) end = digits_end(digits, is_ascii_digit);
      }
    }
    TokenKind kind = TokenKind::kFloat;
    if (end == whole) {
      kind = TokenKind::kInteger;
      end = integer_end();
    }
    std::string text(source_, at_, end - at_);
    std::erase(text, '_');
    add(kind, text);
    skip(end - at_);
  }

  size_t integer_end() const {
    if (source_[at_] != '0') return digits_end(at_, is_ascii_digit);
    const auto prefixed = [&](std::string_view prefix, auto is_valid) -> size_t {
      if (at_ + 2 >= source_.size() || (source_[at_ + 1] | 0x20) != prefix[0]) return 0;
      const size_t digits = at_ + (source_[at_ + 2] == '_' ? 3 : 2);
      const size_t end = digits_end(digits, is_valid);
      return end == digits ? 0 : end;
    };
    if (const size_t end = prefixed("b", [](char c) { return c == '0' || c == '1'; })) return end;
    if (const size_t end = prefixed("o", [](char c) { return c >= '0' && c <= '7'; })) return end;
    if (const size_t end = prefixed("x", is_hex_digit)) return end;
    return digits_end(at_, [](char c) { return c == '0'; });
  }

  bool name() {
    size_t end = at_;
    while (end < source_.size()) {
      const size_t size = utf8_size(source_[end]);
      const char32_t character = utf8_character(std::string_view(source_).substr(end, size));
      if (end == at_ ? !may_start_name(character) : !may_continue_name(character)) break;
      end += size;
    }
    if (end == at_) return false;
    add(TokenKind::kName, rest().substr(0, end - at_));
    skip(end - at_);
    return true;
  }

  void operation(std::string& brackets) {
    const auto* const found =
        std::ranges::find_if(kOperators, [&](std::string_view text) { return sees(text); });
    if (found == kOperators.end()) {
      if (sees("!")) fail("unexpected '!'");
      fail(fmt::format("unexpected character '{}'", rest().substr(0, utf8_size(source_[at_]))));
    }
    const char c = found->front();
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) fail(fmt::format("unexpected '{}'", c));
      if (brackets.back() != c) {
        fail(fmt::format("unexpected '{}', expected '{}'", c, brackets.back()));
      }
      brackets.pop_back();
    }
    add(TokenKind::kOperator, *found);
    skip(found->size());
  }

  void string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed");
    add(TokenKind::kString, unescaped(rest().substr(1, end - at_ - 1)));
    skip(end + 1 - at_);
  }

  // What the escapes of a string literal stand for.
  std::string unescaped(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const size_t plain = std::min(text.find('\\'), text.size());
      result += text.substr(0, plain);
      text.remove_prefix(plain);
      if (!text.empty()) text.remove_prefix(escape(text, result));
    }
    return result;
  }

  // Appends what the escape at the beginning of `text` stands for; its size.
  size_t escape(std::string_view text, std::string& result) const {
    if (text.size() < 2) fail("a string ends in a backslash");
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeaning = "\\'\"\a\b\f\n\r\t\v";
    const char c = text[1];
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      result += kMeaning[i];
      return 2;
    }
    if (c == '\n') return 2;
    if (c == 'x') return hex_escape(text, 2, result);
    if (c == 'u') return hex_escape(text, 4, result);
    if (c == 'U') return hex_escape(text, 8, result);
    if (c == 'N') fail("characters by name (\\N) are not supported");
    if (c >= '0' && c <= '7') {
      size_t size = 1;
      char32_t character = 0;
      for (; size < 4 && size < text.size() && text[size] >= '0' && text[size] <= '7'; ++size) {
        character = character * 8 + static_cast<char32_t>(text[size] - '0');
      }
      append_utf8(result, character);
      return size;
    }
    result += '\\';
    if (static_cast<unsigned char>(c) < 0x80) {
      result += c;
      return 2;
    }
    // The backslash takes the one of the escape that the character becomes on its way.
    const size_t size = utf8_size(c);
    result += escape_of(utf8_character(text.substr(1, size))).substr(1);
    return 1 + size;
  }

  size_t hex_escape(std::string_view text, size_t num_digits, std::string& result) const {
    const std::string_view digits = text.substr(2, num_digits);
    if (digits.size() < num_digits || !std::ranges::all_of(digits, is_hex_digit)) {
      fail(fmt::format("the escape {} is not complete", text.substr(0, 2)));
    }
    const auto code = static_cast<char32_t>(std::stoul(std::string(digits), nullptr, 16));
    if (code > 0x10FFFF) fail("an escape is no Unicode character");
    if (code >= 0xD800 && code <= 0xDFFF) fail("surrogates in strings are not supported");
    append_utf8(result, code);
    return 2 + num_digits;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // the last thing read ended a line
  std::vector<Token> tokens_ = {};
};

}  // namespace

std::vector<Token> lex(std::string_view source) { return Lexer(source).tokens(); }

}  // namespace pagedinfer::jinja
