// MXFP4: the matrices of experts, one below the other; e2m1 codes, two in a byte and the first in
// its low half, with a power of two for each 32 of a row (OCP Microscaling Formats 1.0).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "model/quantized/method.h"
#include "model/quantized/stored_part.h"

namespace pagedinfer {
namespace {

constexpr int64_t kGroup = 32, kGroupBytes = kGroup / 2;
constexpr std::string_view kByteTypes[] = {"U8"};
constexpr std::string_view kPowerTypes[] = {"U8", "F8_E8M0"};

// Half of the power of two, since the integers of CodeValues::kFp4 are twice the values of e2m1.
float half_power(uint8_t byte) {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  return byte < 2 ? 0.0f : std::ldexp(1.0f, byte - 128);
}

CodeSource open_mxfp4(const Checkpoint& files, const std::string& module, MatrixSize size) {
  const int64_t rows = size.rows, cols = size.cols;
  const std::string blocks_name = module + "_blocks";
  if (files.contains(module)) {
    throw Error(fmt::format("{}: tensor '{}' is there, expected is {} alone",
                            files.stored(module).file, shortened(module), shortened(blocks_name)));
  }
  check_multiple(files, blocks_name, "columns", cols, kGroup);
  const int64_t num_groups = cols / kGroup;
  const int64_t matrices = std::max<int64_t>(1, size.stacked), rows_each = rows / matrices;
  const StoredTensor& blocks =
      find_part(files, blocks_name, kByteTypes, {{matrices, rows_each, num_groups, kGroupBytes}});
  const StoredTensor& powers =
      find_part(files, module + "_scales", kPowerTypes, {{matrices, rows_each, num_groups}});
  CodeSource source = {.rows = rows,
                       .cols = cols,
                       .group = kGroup,
                       .values = CodeValues::kFp4,
                       .scales = CodeScales::kE8M0};
  source.read = [cols, num_groups, bytes = numbers_of<uint8_t>(blocks).data(),
                 power_of = numbers_of<uint8_t>(powers).data()](
                    int64_t first, int64_t count, uint8_t* codes, float* scales, uint8_t*) {
    const uint8_t* from = bytes + first * (cols / 2);
    for (int64_t i = 0; i < count * (cols / 2); ++i) {
      *codes++ = *from & 15;
      *codes++ = *from++ >> 4;
    }
    const uint8_t* const power = power_of + first * num_groups;
    std::transform(power, power + count * num_groups, scales, half_power);
  };
  return source;
}

}  // namespace

// Modules that the list excludes are plain tensors in the checkpoint.
StoredForm read_mxfp4(const JsonObject&) {
  StoredForm form = {
      .description = "mxfp4, 4 bits, groups of 32", .parts = {"blocks", "scales"}, .joint = '_'};
  form.open = [](const Checkpoint& files, const std::string& module, MatrixSize size) {
    return dequantized(open_mxfp4(files, module, size));
  };
  form.open_codes = open_mxfp4;
  return form;
}

}  // namespace pagedinfer
