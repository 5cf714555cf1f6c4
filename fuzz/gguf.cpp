// Parses the bytes as a GGUF file, and its metadata as a tokenizer's and a model's.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "io/gguf_header.h"
#include "io/json_file.h"
#include "text/files/gguf_tokenizer.h"

using namespace pagedinfer;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const GgufHeader header = parse_gguf("m.gguf", file);
    std::vector<std::span<const std::byte>> ranges;
    for (const auto& [name, tensor] : header.tensors) {
      const auto type = gguf_type(tensor.type);
      require(type.has_value(), "a tensor has a type of the format");
      if (tensor.bytes.empty()) continue;
      unsigned __int128 numbers = 1;
      for (const int64_t n : tensor.shape) numbers *= static_cast<uint64_t>(n);
      require(numbers / type->numbers * type->bytes == tensor.bytes.size(),
              "a tensor has the bytes of its shape");
      require(tensor.bytes.data() >= file.data() &&
                  tensor.bytes.data() + tensor.bytes.size() <= file.data() + size,
              "a tensor lies in the file");
      ranges.push_back(tensor.bytes);
    }
    std::ranges::sort(ranges, {}, [](const auto& range) { return range.data(); });
    for (size_t i = 1; i < ranges.size(); ++i) {
      require(ranges[i - 1].data() + ranges[i - 1].size() <= ranges[i].data(),
              "tensors do not overlap");
    }
    const JsonFile metadata("m.gguf", header.metadata);
    static_cast<void>(gguf_tokenizer_files(metadata.root()));
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with("m.gguf: "), "an error names the file");
  }
  return 0;
}
