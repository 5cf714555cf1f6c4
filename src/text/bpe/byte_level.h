// The letters that stand for bytes in the vocabularies of byte-level BPE (Radford et al. 2019,
// "Language models are unsupervised multitask learners"): a printable letter for each byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

// The letters for `bytes`, as UTF-8.
std::string byte_level_letters(std::string_view bytes);

// The bytes for `letters` (UTF-8); nullopt if one of them is not such a letter.
std::optional<std::string> byte_level_bytes(std::string_view letters);

}  // namespace pagedinfer
