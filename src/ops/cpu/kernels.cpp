// Compiled once per instruction set, with PAGEDINFER_KERNELS naming the table that it defines.
#include "ops/cpu/kernels.h"

#include "ops/cpu/attention.h"
#include "ops/cpu/bare_loops.h"
#include "ops/cpu/matmul_bf16.h"
#include "ops/cpu/matmul_bf16_panels.h"
#include "ops/cpu/matmul_float.h"
#include "ops/cpu/matmul_int4.h"
#include "ops/cpu/matmul_int8.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/scalar_math.h"

namespace pagedinfer {
namespace {

void pack_int4_input(const PackArgs& args) { pack_int4(args, to_int8_row); }

}  // namespace

#define STRING(x) #x
#define NAME(x) STRING(x)
extern const Kernels PAGEDINFER_KERNELS;
constinit const Kernels PAGEDINFER_KERNELS = {
    .name = NAME(PAGEDINFER_KERNELS),
    .fma = fma_row,
    .exp = exp_row,
    .tanh = tanh_row,
    .sum = sum_row,
    .largest = largest_of_row,
    .weights = weights_row,
    .add = add_row,
    .add_scaled = add_scaled_row,
    .scale = scale_row,
    .softcap = softcap_row,
    .add_low_rank = add_low_rank_row,
    .rms_norm = rms_norm_row,
    .silu = silu_row,
    .gelu_tanh = gelu_tanh_row,
    .clamped_swish = clamped_swish_row,
    .limit = limit_row,
    .rope = rope_row,
    .to_bf16 = to_bf16_row,
    .from_bf16 = widen_row<bf16>,
    .from_f16 = widen_row<f16>,
    .from_int8 = widen_row<int8_t>,
    .to_f16 = to_f16_row,
    .to_int8 = to_int8_row,
    .read = read_memory,
    .rope_table = rope_table_row,
    .product_float_float = {pack_float, matmul_float<float>, bare_floats},
    .product_float_bf16 = {pack_float, matmul_float<bf16>, bare_floats},
    .product_float_f16 = {pack_float, matmul_float<f16>, bare_floats},
    .product_bf16 = {pack_rounded, matmul_bf16, bare_floats},
    .product_bf16_panels = {pack_rounded, matmul_bf16_panels<WideTiles>, bare_floats},
    .product_bf16_panels_tall = {pack_rounded, matmul_bf16_panels<TallTiles>, bare_floats},
    .product_int8 = {pack_int8_input, multiply_panels<WordTiles>, bare_words,
                     gather_rows<Int8Input<int16_t>>},
    .product_int4 = {pack_int4_input, multiply_int4_panels<Int4Tiles>, bare_words,
                     gather_rows<Int4Input>},
    .interleave_int8 = interleave_int8,
    .interleave_bf16 = interleave_bf16,
    .attention_float = kAttentionOver<float>,
    .attention_bf16 = kAttentionOver<bf16>,
    .attention_f16 = kAttentionOver<f16>,
    .attention_int8 = kAttentionOver<int8_t>,
};

}  // namespace pagedinfer
