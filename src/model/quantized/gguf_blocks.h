// The block types of GGUF as numbers, by the formulas of ggml
// (https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c). Each product is rounded, and
// then the difference or the sum; no multiplication is fused with an addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagedinfer {

// Writes the numbers of `count` blocks, which lie together.
using ReadBlocks = void (*)(const std::byte* blocks, int64_t count, float* numbers);

// Null: the type is not read.
ReadBlocks find_block_reader(std::string_view type);

// "Q8_0, Q4_0, ...": the types that are read.
std::string known_block_types();

}  // namespace pagedinfer
