// The block types of GGUF, by the formulas of ggml
// (https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/code_types.h"

namespace pagedinfer {

// A block as CodeSource::read() gives a group: codes, one in a byte; its scale, and its minimum or
// that of its minima; its sub-scales, then its sub-minima.
using ReadBlockCodes = void (*)(const uint8_t* block, uint8_t* codes, float* scales,
                                uint8_t* bytes);

struct BlockType {
  std::string_view name;
  ReadBlockCodes read_codes = nullptr;
  // As those of CodeSource.
  CodeValues values = CodeValues::kUniform;
  CodeScales scales = CodeScales::kF16;
  int zero = 0;
  int sub_group = 0;
  bool has_minima = false;
};

// Null: the type is not read.
const BlockType* find_block_type(std::string_view name);

// "Q4_0, Q4_1, ...": the types that are read.
std::string known_block_types();

}  // namespace pagedinfer
