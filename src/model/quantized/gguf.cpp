// The block types of GGUF files. A matrix is one tensor, whose type says how its rows are stored.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/denormals.h"
#include "core/error.h"
#include "core/refusal.h"
#include "io/gguf_header.h"
#include "io/json_file.h"
#include "model/quantized/gguf_blocks.h"
#include "model/quantized/method.h"

namespace pagedinfer {
namespace {

// A matrix in blocks, whose rows are whole blocks.
struct BlockRows {
  int64_t rows = 0, cols = 0;
  const BlockType* type = nullptr;
  GgufType size = {};
  const uint8_t* bytes = nullptr;

  // Calls f(block) for the blocks of rows [first, first + count).
  template <class F>
  void for_blocks(int64_t first, int64_t count, const F& f) const {
    const int64_t of_row = cols / size.numbers;
    const uint8_t* block = bytes + first * of_row * size.bytes;
    for (int64_t i = 0; i < count * of_row; ++i, block += size.bytes) f(block);
  }
};

BlockRows open_blocks(const Checkpoint& files, const std::string& module, int64_t rows,
                      int64_t cols) {
  const std::string name = module + ".weight";
  const StoredTensor& tensor = files.stored(files.contains(name) ? name : module);
  const auto size = gguf_type(tensor.type);
  const BlockType* const type = find_block_type(tensor.type);
  if (!size || type == nullptr) {
    throw Error(
        fmt::format("{}: the tensor of {} has type {}, expected F32, F16, BF16 or one of {}",
                    tensor.file, shortened(module), tensor.type, known_block_types()));
  }
  if (tensor.shape != std::vector<int64_t>{rows, cols}) {
    throw Error(fmt::format(
        "{}: the tensor of {} has shape [{}], expected [{}, {}]", tensor.file, shortened(module),
        shortened(fmt::format("{}", fmt::join(tensor.shape, ", "))), rows, cols));
  }
  return {rows, cols, type, *size, reinterpret_cast<const uint8_t*>(tensor.bytes.data())};
}

CodeSource codes_of_blocks(const BlockRows& blocks) {
  const BlockType& type = *blocks.type;
  CodeSource source = {.rows = blocks.rows,
                       .cols = blocks.cols,
                       .group = blocks.size.numbers,
                       .values = type.values,
                       .scales = type.scales,
                       .zero = type.zero,
                       .sub_group = type.sub_group,
                       .has_minima = type.has_minima};
  source.read = [blocks, num_scales = source.scales_of_group(),
                 num_bytes = source.bytes_of_group()](int64_t first, int64_t count, uint8_t* codes,
                                                      float* scales, uint8_t* bytes) {
    blocks.for_blocks(first, count, [&](const uint8_t* block) {
      blocks.type->read_codes(block, codes, scales, bytes);
      codes += blocks.size.numbers;
      scales += num_scales;
      if (bytes != nullptr) bytes += num_bytes;
    });
  };
  return source;
}

RowSource open_block_rows(const Checkpoint& files, const std::string& module, MatrixSize size) {
  const CodeSource codes = codes_of_blocks(open_blocks(files, module, size.rows, size.cols));
  return {size.rows, size.cols,
          [of = dequantized(codes)](int64_t first, int64_t count, float* out) {
            const FlushDenormals flush;
            of.read(first, count, out);
          }};
}

std::optional<CodeSource> open_block_codes(const Checkpoint& files, const std::string& module,
                                           MatrixSize size) {
  return codes_of_blocks(open_blocks(files, module, size.rows, size.cols));
}

}  // namespace

StoredForm read_gguf(const JsonObject& config) {
  std::vector<std::string> types;
  config.keep([&] { types = config.strings("types"); });
  for (const std::string& name : types) {
    if (find_block_type(name) == nullptr) {
      config.complain("types", shortened(name), known_block_types());
    }
  }
  return {.description = fmt::format("gguf, {}", fmt::join(types, ", ")),
          .parts = {"weight"},
          .compute = DType::kBF16,
          .codes = "weight",
          .open = open_block_rows,
          .open_codes = open_block_codes};
}

}  // namespace pagedinfer
