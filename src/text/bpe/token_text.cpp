#include "text/bpe/token_text.h"

#include "text/bpe/byte_level.h"
#include "text/bpe/normalizer.h"

namespace pagedinfer {
namespace {

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
