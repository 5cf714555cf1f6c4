#include "jinja/from_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string>

#include "core/utf8.h"
#include "text/unicode/utf8.h"

namespace pagedinfer::jinja {
namespace {

constexpr int kMaxJsonNesting = 300;

class JsonParser {
 public:
  JsonParser(std::string_view json, bool marked)
      : rest_(json), size_(json.size()), marked_(marked) {}

  Value document() {
    Value result = value(0);
    skip_space();
    if (!rest_.empty()) fail("the end of the text");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw TemplateError(
        fmt::format("not JSON: expected {} at byte {}", expected, size_ - rest_.size()));
  }
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size()));
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  Value value(int nesting) {
    if (nesting > kMaxJsonNesting) {
      throw TemplateError(fmt::format("JSON is nested more than {} deep", kMaxJsonNesting), 0,
                          TemplateError::Reason::kLimit);
    }
    skip_space();
    if (take("{")) return object(nesting);
    if (take("[")) return array(nesting);
    if (take("\"")) return Value::string(string(), marked_);
    if (take("true")) return Value::boolean(true);
    if (take("false")) return Value::boolean(false);
    if (take("null")) return Value::none();
    return number();
  }

  Value object(int nesting) {
    Dict result;
    skip_space();
    if (take("}")) return Value::dict(std::move(result));
    do {
      skip_space();
      if (!take("\"")) fail("a key");
      const std::string key = string();
      skip_space();
      if (!take(":")) fail("':'");
      result.set(key, value(nesting + 1), marked_);
      skip_space();
    } while (take(","));
    if (!take("}")) fail("',' or '}'");
    return Value::dict(std::move(result));
  }

  Value array(int nesting) {
    std::vector<Value> items;
    skip_space();
    if (take("]")) return Value::list({});
    do {
      items.push_back(value(nesting + 1));
      skip_space();
    } while (take(","));
    if (!take("]")) fail("',' or ']'");
    return Value::list(std::move(items));
  }

  // Behind the opening quote.
  std::string string() {
    std::string result;
    while (true) {
      const size_t plain = rest_.find_first_of("\"\\");
      if (plain == std::string_view::npos) fail("the end of a string");
      for (const char c : rest_.substr(0, plain)) {
        if (static_cast<unsigned char>(c) < 0x20) fail("an escape for a control character");
      }
      result += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (take("\"")) return result;
      escape(result);
    }
  }
  void escape(std::string& result) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
    if (rest_.size() < 2) fail("an escape");
    const size_t i = kLetters.find(rest_[1]);
    if (i != std::string_view::npos) {
      result += kMeaning[i];
      rest_.remove_prefix(2);
      return;
    }
    char32_t unit = code_unit();
    if (unit >= 0xD800 && unit < 0xDC00) {
      const char32_t low = code_unit();
      if (low < 0xDC00 || low > 0xDFFF) fail("the second half of a surrogate pair");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xDC00 && unit <= 0xDFFF) {
      fail("the first half of a surrogate pair");
    }
    append_utf8(result, unit);
  }
  char32_t code_unit() {
    if (!take("\\u") || rest_.size() < 4) fail("an escape");
    uint32_t unit = 0;
    const auto parsed = std::from_chars(rest_.data(), rest_.data() + 4, unit, 16);
    if (parsed.ptr != rest_.data() + 4) fail("four hexadecimal digits");
    rest_.remove_prefix(4);
    return unit;
  }

  Value number() {
    const size_t size = std::min(rest_.find_first_not_of("+-.0123456789eE"), rest_.size());
    const std::string text(rest_.substr(0, size));
    size_t at = text.starts_with('-') ? 1 : 0;
    const auto digits = [&] {
      const size_t begin = at;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
      return at - begin;
    };
    const bool zero = at < text.size() && text[at] == '0';
    const size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) fail("a value");
    const bool integer = at == text.size();
    if (at < text.size() && text[at] == '.') {
      ++at;
      if (digits() == 0) fail("digits");
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      ++at;
      if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
      if (digits() == 0) fail("digits");
    }
    if (at != text.size()) fail("a value");
    rest_.remove_prefix(size);
    if (!integer) return Value::real(std::strtod(text.c_str(), nullptr));
    int64_t result = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), result);
    return parsed.ec == std::errc() ? Value::integer(result) : Value::big_integer(text);
  }

  std::string_view rest_;
  size_t size_;
  bool marked_;
};

}  // namespace

Value from_json(std::string_view json, bool marked) {
  if (!is_utf8(json)) throw TemplateError("not JSON: not UTF-8");
  return JsonParser(json, marked).document();
}

}  // namespace pagedinfer::jinja
