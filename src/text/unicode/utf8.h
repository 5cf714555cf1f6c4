#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the character that begins with `first`. REQUIRES: it begins one.
inline size_t utf8_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// Decodes one character. REQUIRES: `bytes` are the UTF-8 of one character.
char32_t utf8_character(std::string_view bytes);
// REQUIRES: `character` is at most U+10FFFF and not a surrogate.
void append_utf8(std::string& text, char32_t character);

// Turns bytes that arrive in pieces into valid UTF-8. Each maximal invalid piece becomes one
// U+FFFD, as the Unicode standard recommends. Holds back an incomplete character until it is
// complete.
class Utf8Stream {
 public:
  // Appends to `text` the characters that `bytes` complete. False if some bytes were not UTF-8.
  bool push(std::string_view bytes, std::string& text);

  // Whether an incomplete character is held back.
  bool inside_character() const { return missing_ > 0; }

 private:
  std::string held_ = {};     // the beginning of a character, valid so far
  int missing_ = 0;           // bytes until it is complete
  unsigned char low_ = 0x80;  // the range of the next byte
  unsigned char high_ = 0xBF;
};

}  // namespace pagedinfer
