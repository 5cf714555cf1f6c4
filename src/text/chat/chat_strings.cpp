#include "text/chat/chat_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pagedinfer {
namespace {

// The non-ASCII characters for which str.isspace() is true.
constexpr std::string_view kWideSpaces[] = {"\u0085", "\u00A0", "\u1680", "\u2000", "\u2001",
                                            "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                            "\u2007", "\u2008", "\u2009", "\u200A", "\u2028",
                                            "\u2029", "\u202F", "\u205F", "\u3000"};

bool is_narrow_space(char c) { return (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= ' '); }

// The size in bytes of the space at one end of `text`; 0 if there is none.
template <class IsThere>
size_t space_length(char nearest, IsThere is_there) {
  if (is_narrow_space(nearest)) return 1;
  const auto* const found = std::find_if(std::begin(kWideSpaces), std::end(kWideSpaces), is_there);
  return found == std::end(kWideSpaces) ? 0 : found->size();
}

}  // namespace

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const size_t length =
        space_length(text.front(), [&](std::string_view space) { return text.starts_with(space); });
    if (length == 0) break;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    const size_t length =
        space_length(text.back(), [&](std::string_view space) { return text.ends_with(space); });
    if (length == 0) break;
    text.remove_suffix(length);
  }
  return text;
}

std::string_view strip_newlines_left(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

std::string_view strip_newlines(std::string_view text) {
  return strip_newlines_left(text.substr(0, text.find_last_not_of('\n') + 1));
}

std::string_view before_first(std::string_view text, std::string_view mark) {
  return text.substr(0, text.find(mark));
}

std::string_view after_last(std::string_view text, std::string_view mark) {
  const size_t place = text.rfind(mark);
  return place == text.npos ? text : text.substr(place + mark.size());
}

std::string python_json(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': json += "\\\""; break;
      case '\\': json += "\\\\"; break;
      case '\n': json += "\\n"; break;
      case '\r': json += "\\r"; break;
      case '\t': json += "\\t"; break;
      case '\b': json += "\\b"; break;
      case '\f': json += "\\f"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          json += fmt::format("\\u{:04x}", c);
        } else {
          json += c;
        }
    }
  }
  return json += '"';
}

}  // namespace pagedinfer
