#include "text/bpe/token_text.h"

#include <array>
#include <cstdint>

#include "text/bpe/normalizer.h"

namespace pagedinfer {
namespace {

constexpr int kNumLetters = 0x144;  // code points below it

struct Table {
  std::array<uint16_t, 256> letter_of = {};       // code point by byte
  std::array<int16_t, kNumLetters> byte_of = {};  // by code point; -1 = none
};

// A byte that is printable in Latin-1 is its own letter, the others count up from U+0100.
constexpr Table make_table() {
  Table table;
  table.byte_of.fill(-1);
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint16_t letter = printable ? static_cast<uint16_t>(byte) : next++;
    table.letter_of[static_cast<size_t>(byte)] = letter;
    table.byte_of[letter] = static_cast<int16_t>(byte);
  }
  return table;
}

constexpr Table kTable = make_table();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string replaced(const TokenText& how, std::string_view spelt) {
  std::string text(spelt);
  for (const auto& [from, to] : how.replace) text = replace_all(from, to)(std::move(text));
  return text;
}

}  // namespace

std::string byte_level_letters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const uint16_t letter = kTable.letter_of[static_cast<unsigned char>(c)];
    if (letter < 0x80) {
      letters += static_cast<char>(letter);
    } else {
      letters += static_cast<char>(0xC0 | letter >> 6);
      letters += static_cast<char>(0x80 | (letter & 63));
    }
  }
  return letters;
}

std::optional<std::string> byte_level_bytes(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (size_t i = 0; i < letters.size(); ++i) {
    const auto first = static_cast<unsigned char>(letters[i]);
    int code = first;
    if (first >= 0x80) {
      if (first >= 0xE0 || i + 1 >= letters.size()) return std::nullopt;
      code = (first & 0x1F) << 6 | (static_cast<unsigned char>(letters[++i]) & 0x3F);
    }
    if (code >= kNumLetters || kTable.byte_of[static_cast<size_t>(code)] < 0) return std::nullopt;
    bytes += static_cast<char>(kTable.byte_of[static_cast<size_t>(code)]);
  }
  return bytes;
}

std::optional<char> TokenText::byte_of(std::string_view spelt) const {
  if (!byte_fallback) return std::nullopt;
  const std::string text = replaced(*this, spelt);
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  // The reference accepts a plus sign in the place of the first digit.
  const int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

std::string TokenText::bytes_of(std::string_view spelt) const {
  if (const auto byte = byte_of(spelt)) return {*byte};
  std::string text = replaced(*this, spelt);
  if (byte_level) {
    if (auto bytes = byte_level_bytes(text)) return *bytes;
  }
  return text;
}

}  // namespace pagedinfer
