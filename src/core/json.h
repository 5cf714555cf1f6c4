// Writing JSON: strings, numbers, and a writer that places the commas.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/utf8.h"

namespace pagedinfer {

// Appends `text` as a JSON string, quotes included. A byte that is not UTF-8 becomes U+FFFD, so
// that the output is valid JSON whatever the input is.
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  size_t done = 0;  // [done, i) passes through
  size_t i = 0;
  const auto replace = [&](std::string_view with) {
    out.append(text, done, i - done).append(with);
    done = ++i;
  };
  while (i < text.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"') {
      replace("\\\"");
    } else if (c == '\\') {
      replace("\\\\");
    } else if (c == '\n') {
      replace("\\n");
    } else if (c == '\t') {
      replace("\\t");
    } else if (c == '\r') {
      replace("\\r");
    } else if (c < 0x20 || c == 0x7F) {
      const char escape[] = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
      replace({escape, sizeof escape});
    } else if (c < 0x80) {
      ++i;
    } else if (const int length = utf8_length(text.substr(i))) {
      i += static_cast<size_t>(length);
    } else {
      replace("\xEF\xBF\xBD");
    }
  }
  out.append(text, done, i - done);
  out += '"';
}

// Appends the shortest text that reads back as the same number of the same type. Infinities and NaN
// become null, because JSON has no such numbers.
template <class T>
requires std::integral<T> || std::floating_point<T>
void append_json_number(std::string& out, T value) {
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) {
      out += "null";
      return;
    }
  }
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

// Appends one JSON value to a string, on one line, commas where they belong:
//   JsonWriter(out).begin_object().field("id", 7).key("tokens").begin_array().value(1).end_array()
//       .end_object();
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out), start_(out.size()) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    value(name);
    out_ += ':';
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    separate();
    append_json_string(out_, text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool on) { return raw(on ? "true" : "false"); }
  JsonWriter& value(std::nullptr_t) { return raw("null"); }
  template <class T>
  JsonWriter& value(const std::optional<T>& content) {
    return content ? value(*content) : value(nullptr);
  }
  template <class T>
  JsonWriter& value(const std::vector<T>& list) {
    begin_array();
    for (const T& item : list) value(item);
    return end_array();
  }
  template <class T>
  requires std::integral<T> || std::floating_point<T> JsonWriter& value(T number) {
    separate();
    append_json_number(out_, number);
    return *this;
  }
  // REQUIRES: `json` is one JSON value.
  JsonWriter& raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

 private:
  // A value never ends in one of these characters, so the last one says where we are.
  void separate() {
    if (out_.size() == start_) return;
    const char last = out_.back();
    if (last != '{' && last != '[' && last != ':') out_ += ',';
  }
  JsonWriter& open(char bracket) {
    separate();
    out_ += bracket;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    return *this;
  }

  std::string& out_;
  size_t start_;
};

}  // namespace pagedinfer
