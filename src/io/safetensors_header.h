#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// One tensor of a file of tensors.
struct StoredTensor {
  std::string type = {};  // as the file's format calls it: "BF16"
  std::vector<int64_t> shape = {};
  std::span<const std::byte> bytes = {};  // as many as type and shape need
  std::string file = {};                  // for messages
};

// Bits of a number of a type that the format has; 0 if it has none of this name.
int bits_of_type(std::string_view type);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;  // by name

// Parses the header of a safetensors file whose bytes are `file`; the tensors refer to them. Throws
// Error naming `path` if the header is invalid, a tensor lies outside the file or two overlap.
StoredTensors parse_safetensors(const std::string& path, std::span<const std::byte> file);

// Throws Error naming `path`, the file that has the tensors, if two of them share bytes.
void check_overlaps(const std::string& path, const StoredTensors& tensors);

}  // namespace pagedinfer
