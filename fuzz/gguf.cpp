// Parses the bytes as a GGUF file, and its metadata as a tokenizer's and a model's.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "io/gguf_header.h"
#include "io/model_store.h"
#include "model/families.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_tensors.h"
#include "text/files/gguf_tokenizer.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

void check_header(std::span<const std::byte> file) {
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
                tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
            "a tensor lies in the file");
    ranges.push_back(tensor.bytes);
  }
  require_apart(ranges);
}

// Calls f(path) with a file that has the bytes.
template <class F>
void with_file(std::span<const std::byte> bytes, const F& f) {
  static const int file = memfd_create("m.gguf", 0);
  require(ftruncate(file, 0) == 0 &&
              pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "a file in memory is written");
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try {
    f(path);
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with(path), "an error names the file");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    check_header(bytes);
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with("m.gguf: "), "an error names the file");
    return 0;
  }
  with_file(bytes, [](const std::string& path) {
    const auto file = std::make_shared<const GgufFile>(path);
    const ModelStore store(path, file, gguf_tokenizer_files(file->metadata()));
    if (!store.has("tokenizer_config.json")) return;
    static_cast<void>(make_tokenizer(store)->encode("A b\xC3\xA9 12 </s>"));
  });
  with_file(bytes, [](const std::string& path) {
    const auto file = std::make_shared<const GgufFile>(path);
    static_cast<void>(gguf_checkpoint(*file));
    const JsonFile config(path, gguf_config(*file));
    ModelSpec spec;
    std::vector<TensorNames> names;
    find_family(config.root())(config.root(), spec, names);
  });
  return 0;
}
