#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// Bytes of the character that begins with `first`. REQUIRES: it begins one.
inline size_t utf8_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// The character that `bytes` are. REQUIRES: they are one.
char32_t utf8_character(std::string_view bytes);
// REQUIRES: `character` is at most U+10FFFF and no surrogate.
void append_utf8(std::string& text, char32_t character);

// Turns bytes that arrive in pieces into valid UTF-8. Bytes that are no UTF-8 become U+FFFD,
// one for each maximal part of a character that they could have begun (the practice that the
// Unicode standard recommends). A character that is not complete is held back; if the text
// ends there, it is not part of it.
class Utf8Stream {
 public:
  // Appends to `text` the characters that `bytes` complete. False: some bytes were no UTF-8.
  bool push(std::string_view bytes, std::string& text);

  // Whether a character has begun and is not complete.
  bool inside_character() const { return missing_ > 0; }

 private:
  std::string held_ = {};     // the beginning of a character, valid so far
  int missing_ = 0;           // bytes until it is complete
  unsigned char low_ = 0x80;  // the range of the next byte
  unsigned char high_ = 0xBF;
};

}  // namespace pagedinfer
