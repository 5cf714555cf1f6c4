// The block types of GGUF files. A matrix is one tensor, whose type says how its rows are stored.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "core/refusal.h"
#include "io/gguf_header.h"
#include "io/json_file.h"
#include "model/quantized/gguf_blocks.h"
#include "model/quantized/method.h"
#include "model/quantized/stored_codes.h"

namespace pagedinfer {
namespace {

struct BlockRows {
  int64_t rows = 0, cols = 0;
  GgufType type = {};
  const std::byte* bytes = nullptr;

  int64_t blocks_of_row() const { return cols / type.numbers; }
  const std::byte* row(int64_t i) const { return bytes + i * blocks_of_row() * type.bytes; }
};

const StoredTensor& find_matrix(const Checkpoint& files, const std::string& module) {
  const std::string name = module + ".weight";
  return files.stored(files.contains(name) ? name : module);
}

BlockRows open_blocks(const StoredTensor& tensor, const std::string& module, int64_t rows,
                      int64_t cols) {
  const auto type = gguf_type(tensor.type);
  if (!type || find_block_reader(tensor.type) == nullptr) {
    throw Error(
        fmt::format("{}: the tensor of {} has type {}, expected F32, F16, BF16 or one of {}",
                    tensor.file, shortened(module), tensor.type, known_block_types()));
  }
  if (tensor.shape != std::vector<int64_t>{rows, cols}) {
    throw Error(fmt::format(
        "{}: the tensor of {} has shape [{}], expected [{}, {}]", tensor.file, shortened(module),
        shortened(fmt::format("{}", fmt::join(tensor.shape, ", "))), rows, cols));
  }
  return {rows, cols, *type, tensor.bytes.data()};
}

RowSource open_rows(const Checkpoint& files, const std::string& module, int64_t rows,
                    int64_t cols) {
  const StoredTensor& tensor = find_matrix(files, module);
  const BlockRows blocks = open_blocks(tensor, module, rows, cols);
  return {
      rows, cols,
      [blocks, read = find_block_reader(tensor.type)](int64_t first, int64_t count, float* out) {
        read(blocks.row(first), count * blocks.blocks_of_row(), out);
      }};
}

// Types whose blocks are 32 codes of 4 bits behind their scale.
struct CodeType {
  std::string_view name;
  CodeValues values;
  CodeScales scales;
  float (*scale)(const std::byte* block);
};

float half_scale(const std::byte* block) {
  uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  return from_f16(bits);
}
// A power of two whose numbers are twice those of e2m1. Products take it for 0 if it is no normal
// number.
float power_scale(const std::byte* block) {
  const auto exponent = static_cast<uint32_t>(block[0]);
  if (exponent == 255) return std::bit_cast<float>(0x7fc00000);
  return exponent < 2 ? 0.0f : std::bit_cast<float>((exponent - 1) << 23);
}
constexpr CodeType kCodeTypes[] = {
    {"Q4_0", CodeValues::kUniform, CodeScales::kF16, half_scale},
    {"MXFP4", CodeValues::kFp4, CodeScales::kE8M0, power_scale},
};

const CodeType* find_code_type(std::string_view name) {
  const auto* const found = std::ranges::find(kCodeTypes, name, &CodeType::name);
  return found == std::end(kCodeTypes) ? nullptr : found;
}

std::optional<CodeSource> open_codes(const Checkpoint& files, const std::string& module,
                                     int64_t rows, int64_t cols) {
  const StoredTensor& tensor = find_matrix(files, module);
  const CodeType* const type = find_code_type(tensor.type);
  if (type == nullptr) return std::nullopt;
  const BlockRows blocks = open_blocks(tensor, module, rows, cols);
  CodeSource source = {.rows = rows,
                       .cols = cols,
                       .group = blocks.type.numbers,
                       .values = type->values,
                       .scales = type->scales};
  source.read = [blocks, type](int64_t first, int64_t count, uint8_t* codes, float* scales,
                               uint8_t*) {
    const int64_t halves = blocks.type.numbers / 2;
    const std::byte* block = blocks.row(first);
    for (int64_t b = 0; b < count * blocks.blocks_of_row(); ++b, block += blocks.type.bytes) {
      *scales++ = type->scale(block);
      const auto* const bytes =
          reinterpret_cast<const uint8_t*>(block) + blocks.type.bytes - halves;
      for (int64_t i = 0; i < halves; ++i) {
        codes[i] = bytes[i] & 15;
        codes[i + halves] = bytes[i] >> 4;
      }
      codes += blocks.type.numbers;
    }
  };
  return source;
}

}  // namespace

StoredForm read_gguf(const JsonObject& config) {
  std::vector<std::string> types;
  config.keep([&] { types = config.strings("types"); });
  std::vector<std::string_view> dequantized;
  for (const std::string& type : types) {
    if (find_block_reader(type) == nullptr) {
      config.complain("types", shortened(type), known_block_types());
    } else if (find_code_type(type) == nullptr) {
      dequantized.push_back(type);
    }
  }
  StoredForm form = {.description = fmt::format("gguf, {}", fmt::join(types, ", ")),
                     .parts = {"weight"},
                     .compute = DType::kBF16,
                     .codes = "weight",
                     .open = open_rows};
  if (dequantized.size() < types.size()) form.open_codes = open_codes;
  return form;
}

}  // namespace pagedinfer
