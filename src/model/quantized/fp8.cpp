// fp8: a byte for each number, and a scale for blocks of rows and columns, for rows or for all.
#include <fmt/format.h>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"
#include "core/tensor.h"
#include "io/json_file.h"
#include "model/quantized/block_scales.h"
#include "model/quantized/fp8_numbers.h"
#include "model/quantized/method.h"

namespace pagedinfer {
namespace {

// Of "weight_scale_inv".
struct BlockSize {
  int64_t rows = 128, cols = 128;  // 0: there are no blocks
};

BlockScales fp8_scales(const Checkpoint& files, const std::string& module, int64_t rows,
                       int64_t cols, BlockSize size) {
  const std::string of_blocks = module + ".weight_scale_inv", of_rows = module + ".weight_scale";
  const bool has_blocks = files.contains(of_blocks);
  if (has_blocks == files.contains(of_rows)) {
    throw Error(
        fmt::format("{}: expected beside tensor '{}.weight' is {}weight_scale_inv or "
                    "weight_scale",
                    files.stored(module + ".weight").file, shortened(module),
                    has_blocks ? "only one of " : ""));
  }
  if (has_blocks && size.rows > 0) {
    const int64_t down = ceil_div(rows, size.rows), across = ceil_div(cols, size.cols);
    const StoredTensor& scales = find_part(files, of_blocks, kFloatTypes, {{down, across}});
    return {size.rows, size.cols, across, StoredFloats(scales)};
  }
  const StoredTensor& scales = find_part(files, has_blocks ? of_blocks : of_rows, kFloatTypes,
                                         {{}, {1}, {1, 1}, {rows}, {rows, 1}});
  const bool is_one = scales.bytes.size() == static_cast<size_t>(bits_of_type(scales.type) / 8);
  return {is_one ? rows : 1, cols, 1, StoredFloats(scales)};
}

RowSource open_fp8(const Checkpoint& files, const std::string& module, int64_t rows, int64_t cols,
                   BlockSize size) {
  const StoredTensor& codes = find_part(files, module + ".weight", kFp8Types, {{rows, cols}});
  return scaled_rows(rows, cols, read_fp8_codes(codes, cols),
                     fp8_scales(files, module, rows, cols, size));
}

}  // namespace

StoredForm read_fp8(const JsonObject& config) {
  StoredForm form = {.parts = {"weight", "weight_scale_inv", "weight_scale"}, .codes = "weight"};
  constexpr std::string_view kSize = "weight_block_size";
  BlockSize size;
  form.description = "fp8";
  config.keep([&] {
    if (config.is_null(kSize)) size = {0, 0};
    if (!config.has(kSize)) return;
    const auto sizes = config.integers(kSize, 1, kMaxBlock);
    if (sizes.size() != 2) {
      config.refuse(kSize, *config.find(kSize), "two numbers, rows and columns");
    }
    size = {sizes[0], sizes[1]};
    form.description = fmt::format("fp8, blocks of {} x {}", size.rows, size.cols);
  });
  form.notes = {"activations are not quantized, as the checkpoint's fp8 would have them"};
  form.open = [size](const Checkpoint& files, const std::string& module, MatrixSize of) {
    return open_fp8(files, module, of.rows, of.cols, size);
  };
  return form;
}

}  // namespace pagedinfer
