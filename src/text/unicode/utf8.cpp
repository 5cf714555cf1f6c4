#include "text/unicode/utf8.h"

#include "core/utf8.h"

namespace pagedinfer {

char32_t utf8_character(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  if (bytes.size() == 1) return first;
  char32_t character = first & (0x7F >> bytes.size());
  for (const char c : bytes.substr(1)) {
    character = character << 6 | (static_cast<unsigned char>(c) & 0x3F);
  }
  return character;
}

void append_utf8(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xC0 | character >> 6);
  } else {
    if (character < 0x10000) {
      put(0xE0 | character >> 12);
    } else {
      put(0xF0 | character >> 18);
      put(0x80 | (character >> 12 & 0x3F));
    }
    put(0x80 | (character >> 6 & 0x3F));
  }
  put(0x80 | (character & 0x3F));
}

bool Utf8Stream::push(std::string_view bytes, std::string& text) {
  bool valid = true;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (missing_ > 0) {
      if (byte >= low_ && byte <= high_) {
        held_ += c;
        low_ = 0x80;
        high_ = 0xBF;
        if (--missing_ == 0) {
          text += held_;
          held_.clear();
        }
        continue;
      }
      // The byte does not continue the character, which is therefore invalid.
      text += kReplacement;
      valid = false;
      held_.clear();
      missing_ = 0;
    }
    if (byte < 0x80) {
      text += c;
      continue;
    }
    const Utf8Lead lead = utf8_lead(byte);
    if (lead.size == 0) {
      text += kReplacement;
      valid = false;
      continue;
    }
    held_ = c;
    missing_ = lead.size - 1;
    low_ = lead.low;
    high_ = lead.high;
  }
  return valid;
}

}  // namespace pagedinfer
