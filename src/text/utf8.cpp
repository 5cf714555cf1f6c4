#include "text/utf8.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

void Utf8Stream::push(std::string_view bytes, std::string& text) {
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
      // This byte does not belong to the character: that one ends here, broken.
      text += kReplacement;
      held_.clear();
      missing_ = 0;
    }
    if (byte < 0x80) {
      text += c;
      continue;
    }
    if (byte < 0xC2 || byte > 0xF4) {
      text += kReplacement;
      continue;
    }
    held_ = c;
    missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    // The second byte's range excludes long forms, surrogates and what lies past U+10FFFF.
    low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  }
}

}  // namespace pagedinfer
