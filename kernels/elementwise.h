// Operations that touch each element once. All are bound by memory.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// out[i] = table[tokens[i]] * scale, all in one type.
struct EmbedArgs {
  Type type;
  Matrix table;           // (vocabulary, cols)
  const int32_t* tokens;  // (num_rows)
  float scale;
  Matrix out;  // (num_rows, cols)
  int64_t num_rows, cols;
};
void launch_embed(const EmbedArgs& args, cudaStream_t stream);

// out[i] = x[indices[i]]
struct GatherRowsArgs {
  Type type;
  Matrix x;
  const int32_t* indices;  // (num_rows)
  Matrix out;              // (num_rows, cols)
  int64_t num_rows, cols;
};
void launch_gather_rows(const GatherRowsArgs& args, cudaStream_t stream);

// x += y. With y_is_one_row, y is (1, cols) and is added to every row.
struct AddArgs {
  Type type;
  Matrix x, y;  // (num_rows, cols)
  int64_t num_rows, cols;
  bool y_is_one_row;
};
void launch_add(const AddArgs& args, cudaStream_t stream);

// x *= factor
struct ScaleArgs {
  Type type;
  Matrix x;  // (num_rows, cols)
  int64_t num_rows, cols;
  float factor;
};
void launch_scale(const ScaleArgs& args, cudaStream_t stream);

// x = cap * tanh(x / cap). Of float32 numbers the bits are those of the CPU backend.
struct SoftcapArgs {
  Type type;
  Matrix x;  // (num_rows, cols)
  int64_t num_rows, cols;
  float cap;
};
void launch_softcap(const SoftcapArgs& args, cudaStream_t stream);

// out = activation(gate) * up. `out` may be `gate` or `up`.
struct GateArgs {
  Type type;
  Matrix gate, up, out;  // (num_rows, cols)
  int64_t num_rows, cols;
  bool gelu_tanh;  // else SiLU
};
void launch_gate(const GateArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
