// The letters that stand for bytes in the vocabularies of byte-level BPE (Radford et al. 2019,
// "Language models are unsupervised multitask learners"): a printable letter for each byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

// UTF-8 of the letters that stand for `bytes`.
std::string byte_level_letters(std::string_view bytes);

// The bytes that `letters` (UTF-8) stand for; nothing if one of them stands for none.
std::optional<std::string> byte_level_bytes(std::string_view letters);

}  // namespace pagedinfer
