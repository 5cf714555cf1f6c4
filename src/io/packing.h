// The forms in which files are compressed.
#pragma once

#include <cstdint>
#include <string_view>

namespace pagedinfer {

enum class Compression : uint8_t { kNone, kGzip, kZstd };

struct PackingForm {
  Compression packing;
  std::string_view begin;   // of all such data; no UTF-8 text begins so
  std::string_view ending;  // of a file's name
  std::string_view name;
};

inline constexpr PackingForm kPackings[] = {
    {Compression::kGzip, "\x1F\x8B", ".gz", "gzip"},
    {Compression::kZstd, "\x28\xB5\x2F\xFD", ".zst", "zstd"},
};

// The form that a file's name claims; null if it claims none.
constexpr const PackingForm* packing_of_name(std::string_view name) {
  for (const PackingForm& form : kPackings) {
    if (name.ends_with(form.ending)) return &form;
  }
  return nullptr;
}

// The form of data that begin with `bytes`, or may begin with them if `is_whole` is false; null if
// they are not compressed.
constexpr const PackingForm* packing_of_data(std::string_view bytes, bool is_whole = true) {
  for (const PackingForm& form : kPackings) {
    if (bytes.starts_with(form.begin)) return &form;
    if (!is_whole && form.begin.starts_with(bytes)) return &form;
  }
  return nullptr;
}

// The name without the ending of a compressed file.
constexpr std::string_view without_packing(std::string_view name) {
  const PackingForm* const form = packing_of_name(name);
  if (form != nullptr) name.remove_suffix(form->ending.size());
  return name;
}

}  // namespace pagedinfer
