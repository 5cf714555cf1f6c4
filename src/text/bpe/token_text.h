#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// The letters that stand for bytes in the vocabularies of byte-level BPE (Radford et al. 2019,
// "Language models are unsupervised multitask learners"): a printable letter for each byte.
//
// The letters for `bytes`, as UTF-8.
std::string byte_level_letters(std::string_view bytes);

// The bytes for `letters` (UTF-8); nullopt if one of them is not such a letter.
std::optional<std::string> byte_level_bytes(std::string_view letters);

// Converts the spelling of a token to the bytes that it adds in the middle of a text.
struct TokenText {
  bool byte_level = false;                                        // see byte_level_letters()
  bool byte_fallback = false;                                     // <0x0A> is that byte
  std::vector<std::pair<std::string, std::string>> replace = {};  // from, to; applied first

  // The byte of a token like <0x0A>; nullopt for other tokens.
  std::optional<char> byte_of(std::string_view spelt) const;
  std::string bytes_of(std::string_view spelt) const;
};

}  // namespace pagedinfer
