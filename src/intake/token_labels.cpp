#include "intake/token_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

size_t num_common(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Whether the tokens decode to the text with an additional space in front.
bool begins_with_another_space(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               std::string_view text) {
  std::string said;
  for (const TokenId token : tokens) said += tokenizer.token_bytes(token);
  if (!said.starts_with(' ')) return false;
  const size_t with = num_common(said, text);
  const size_t without = num_common(std::string_view(said).substr(1), text);
  return without > with || (without == with && said.size() > text.size());
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
  size_t at = 0;  // offset in `text`
  int num_before = 0;
  bool is_prefixed = begins_with_another_space(tokenizer, tokens, text);
  for (const TokenId token : tokens) {
    std::string_view bytes = tokenizer.token_bytes(token);
    const bool is_special = bytes.empty();
    if (is_special) bytes = tokenizer.special_text(token);
    if (!is_special && std::exchange(is_prefixed, false)) bytes.remove_prefix(1);
    // A normalizer may have changed the text, and invalid bytes are shown as another character. So
    // go on where the token's bytes occur next, if that is near.
    constexpr size_t kNear = 16;
    if (!is_special) {
      const size_t skipped = text.substr(at, kNear + bytes.size()).find(bytes);
      if (skipped != std::string_view::npos) {
        num_before += num_characters(text.substr(at, skipped));
        at += skipped;
      }
    }
    std::string_view rest = text.substr(at);
    const bool inside = !rest.empty() && num_characters(rest.substr(0, 1)) == 0;
    offsets.push_back(num_before - inside);
    if (is_special && !rest.starts_with(bytes)) continue;
    rest = rest.substr(0, bytes.size());
    num_before += num_characters(rest);
    at += rest.size();
  }
  return offsets;
}

}  // namespace pagedinfer
