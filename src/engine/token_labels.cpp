#include "engine/token_labels.h"

#include <fmt/format.h>

#include <string_view>

#include "core/utf8.h"

namespace pagedinfer {
namespace {

std::string in_hex(std::string_view bytes) {
  std::string text = "bytes:";
  for (const char byte : bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

}  // namespace

TokenLabel token_label(const Tokenizer* tokenizer, TokenId token) {
  if (tokenizer == nullptr) return {.text = numbered(token)};
  std::string_view bytes = tokenizer->token_bytes(token);
  if (bytes.empty()) bytes = tokenizer->special_text(token);
  if (bytes.empty()) return {.text = numbered(token)};
  std::string copy(bytes);
  return {.text = is_utf8(bytes) ? copy : in_hex(bytes), .bytes = std::move(copy)};
}

std::vector<int> token_offsets(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               std::string_view text) {
  std::vector<int> offsets;
  size_t at = 0;  // in `text`
  int num_before = 0;
  for (const TokenId token : tokens) {
    std::string_view bytes = tokenizer.token_bytes(token);
    const bool is_special = bytes.empty();
    if (is_special) bytes = tokenizer.special_text(token);
    // A normalizer may change the text, and bytes that are no text are shown as another character:
    // go on where the token's bytes come next, if that is near.
    constexpr size_t kNear = 16;
    const bool is_prefixed = at == 0 && bytes.starts_with(' ') && text.starts_with(bytes.substr(1));
    if (!is_special && !is_prefixed) {
      const size_t skipped = text.substr(at, kNear + bytes.size()).find(bytes);
      if (skipped != std::string_view::npos) {
        num_before += num_characters(text.substr(at, skipped));
        at += skipped;
      }
    }
    std::string_view rest = text.substr(at);
    const bool inside = !rest.empty() && num_characters(rest.substr(0, 1)) == 0;
    offsets.push_back(num_before - inside);
    if (!rest.starts_with(bytes)) {
      if (is_special) continue;
      if (at == 0 && bytes.starts_with(' ')) bytes.remove_prefix(1);
    }
    rest = rest.substr(0, bytes.size());
    num_before += num_characters(rest);
    at += rest.size();
  }
  return offsets;
}

}  // namespace pagedinfer
