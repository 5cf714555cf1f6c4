// The header of a GGUF file, of versions 2 and 3 in little-endian byte order
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/safetensors_header.h"

namespace pagedinfer {

struct GgufHeader {
  // The metadata as a JSON object: a key for each of theirs, numbers, booleans, strings, and lists
  // of one of these. A number that is infinite or NaN is null.
  std::string metadata = {};
  // By GGUF's names. The shape begins with the outermost size, so the last one is that of a row.
  StoredTensors tensors = {};
};

// The numbers of a block of a type, which lie together, and its bytes.
struct GgufType {
  int64_t numbers = 1, bytes = 0;
};
// By GGUF's name ("Q4_K"); nullopt if there is no such type.
std::optional<GgufType> gguf_type(std::string_view name);

// Whether the bytes of a file begin as those of a GGUF file.
bool is_gguf(std::span<const std::byte> file);

// Parses the header of a GGUF file whose bytes are `file`; the tensors refer to them. Throws Error
// naming `path` if the header is invalid or of another version, a tensor lies outside the file, has
// an unknown type, or two overlap.
GgufHeader parse_gguf(const std::string& path, std::span<const std::byte> file);

}  // namespace pagedinfer
