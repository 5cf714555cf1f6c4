// Parses the bytes as a safetensors file.
#include "io/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "fuzz.h"

using namespace pagedinfer;

namespace {

int bits_of(const std::string& type) {
  const std::map<std::string, int> bits = {
      {"F32", 32},    {"F16", 16}, {"BF16", 16},   {"F64", 64},    {"I64", 64},
      {"U64", 64},    {"I32", 32}, {"U32", 32},    {"I16", 16},    {"U16", 16},
      {"I8", 8},      {"U8", 8},   {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"C64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  const auto found = bits.find(type);
  return found == bits.end() ? 0 : found->second;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto tensors = parse_safetensors("model.safetensors", file);
    std::vector<std::span<const std::byte>> ranges;
    for (const auto& [name, tensor] : tensors) {
      require(bits_of(tensor.type) > 0, "a tensor has a type of the format");
      require(bits_of(tensor.type) == bits_of_type(tensor.type), "a type has its number of bits");
      unsigned __int128 elements = 1;
      for (const int64_t n : tensor.shape) {
        require(n >= 0, "a size is not negative");
        elements *= static_cast<uint64_t>(n);
        if (elements > size * 2) break;  // large enough; the product must not overflow
      }
      if (std::ranges::count(tensor.shape, 0) > 0) elements = 0;
      require(elements * bits_of(tensor.type) ==
                  8 * static_cast<unsigned __int128>(tensor.bytes.size()),
              "a tensor has the bytes of its shape");
      if (tensor.bytes.empty()) continue;
      require(tensor.bytes.data() >= file.data() + 8 &&
                  tensor.bytes.data() + tensor.bytes.size() <= file.data() + size,
              "a tensor lies in the file");
      ranges.push_back(tensor.bytes);
    }
    require_apart(ranges);
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with("model.safetensors: "),
            "an error names the file");
  }
  return 0;
}
