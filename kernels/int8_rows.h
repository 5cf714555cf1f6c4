// Rows that become int8 before a product, and rows of a table in int8. Bound by memory.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// Writes x to `out` as the input of products in int8 (int8_panels.h). REQUIRES: `out` has
// int8_input_bytes(num_rows, cols) and is aligned to 16 bytes.
struct QuantizeArgs {
  Type type;
  Matrix x;  // (num_rows, cols)
  int64_t num_rows, cols;
  void* out;
};
void launch_quantize(const QuantizeArgs& args, cudaStream_t stream);

// out[i] = table[tokens[i]] * scale, of a table in int8 (int8_panels.h).
struct EmbedInt8Args {
  Type type;              // of `out`
  const void* table;      // (vocabulary, cols), as weights
  const int32_t* tokens;  // (num_rows)
  float scale;
  Matrix out;  // (num_rows, cols)
  int64_t num_rows, cols;
};
void launch_embed_int8(const EmbedInt8Args& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
