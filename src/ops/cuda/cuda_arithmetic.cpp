#include "ops/cuda/cuda_arithmetic.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/build_facts.h"
#include "core/check.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/int8_rows.h"
#include "kernels/kv.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "ops/cuda/kernel_arguments.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_proof.h"
#include "ops/cuda/step_memory.h"

namespace pagedinfer {
namespace {

// Whether a cache can hold what is computed in this type.
bool holds(const KvLayer& cache, DType computed) {
  return cache.k.dtype == computed || has_scales(cache.k.dtype);
}
bool is_int8(const Product& product) { return product.weight.dtype == DType::kI8; }

}  // namespace

void CudaArithmetic::reserve(const StepMemory& planned) {
  constexpr int64_t kAligned = DeviceArena::kStepAlignment;
  CudaPiece& memory = state_.step_piece;
  products_.set_max_rows(state_.bounds.tokens);
  workspace_ = memory.take(planned.products, kAligned, "the products' workspace");
  int8_.set_input(memory.take(planned.int8_input, kAligned, "the input of products in int8"),
                  planned.int8_input);
  experts_.reserve(planned);
  char* const counters = memory.take(planned.counters, kAligned, "attention");
  counters_ = reinterpret_cast<uint32_t*>(counters);
  check_cuda(
      cudaMemsetAsync(counters, 0, static_cast<size_t>(planned.counters), state_.stream.get()),
      "memory for attention");
}

std::string CudaArithmetic::name() const {
  std::string name =
      fmt::format("{}, cuBLAS {}", state_.device.name, products_.library().version());
  if (products_.choices()) name += fmt::format(", products {:016x}", products_.choices_hash());
  return name;
}

void CudaArithmetic::embed(Tensor table, Tensor tokens, float scale, Tensor out) {
  CHECK(table.cols == out.cols && tokens.rows == out.rows);
  if (table.dtype == DType::kI8) {
    kernels::launch_embed_int8({.type = type_of(out.dtype),
                                .table = table.data,
                                .tokens = ints(tokens),
                                .scale = scale,
                                .out = matrix(out),
                                .num_rows = out.rows,
                                .cols = out.cols},
                               state_.stream.get());
    return check_launch("embedding");
  }
  CHECK(table.dtype == out.dtype);
  kernels::launch_embed({.type = type_of(out.dtype),
                         .table = matrix(table),
                         .tokens = ints(tokens),
                         .scale = scale,
                         .out = matrix(out),
                         .num_rows = out.rows,
                         .cols = out.cols},
                        state_.stream.get());
  check_launch("embedding");
}

void CudaArithmetic::norm(Tensor x, Tensor x_weight, kernels::Matrix residual, Tensor weight,
                          float offset, float eps, Tensor out) {
  CHECK(same_shape(x, out) && x.cols % weight.cols == 0);
  CHECK(x_weight.empty() || x_weight.cols == weight.cols);
  kernels::launch_rms_norm({.type = type_of(x.dtype),
                            .x = matrix(x),
                            .residual = residual,
                            .weight = floats(weight),
                            .x_weight = x_weight.empty() ? nullptr : floats(x_weight),
                            .offset = offset,
                            .eps = eps,
                            .out = matrix(out),
                            .num_rows = x.rows,
                            .runs = x.cols / weight.cols,
                            .width = weight.cols},
                           state_.stream.get());
  check_launch("a norm");
}

void CudaArithmetic::rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) {
  norm(x, {}, {nullptr, 0}, weight, offset, eps, out);
}

void CudaArithmetic::add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                                  Tensor out) {
  CHECK(same_shape(x, y));
  norm(y, {}, matrix(x), weight, offset, eps, out);
}

void CudaArithmetic::norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight,
                                       float offset, float eps, Tensor out) {
  CHECK(same_shape(x, y));
  norm(y, y_weight, matrix(x), weight, offset, eps, out);
}

void CudaArithmetic::add(Tensor x, Tensor y) {
  CHECK(same_shape(x, y));
  kernels::launch_add({.type = type_of(x.dtype),
                       .x = matrix(x),
                       .y = matrix(y),
                       .num_rows = x.rows,
                       .cols = x.cols,
                       .y_is_one_row = false},
                      state_.stream.get());
  check_launch("a sum");
}

void CudaArithmetic::add_bias(Tensor x, Tensor bias) {
  CHECK(bias.rows == 1 && bias.cols == x.cols && bias.dtype == x.dtype);
  kernels::launch_add({.type = type_of(x.dtype),
                       .x = matrix(x),
                       .y = matrix(bias),
                       .num_rows = x.rows,
                       .cols = x.cols,
                       .y_is_one_row = true},
                      state_.stream.get());
  check_launch("a bias");
}

void CudaArithmetic::scale(Tensor x, float factor) {
  kernels::launch_scale({.type = type_of(x.dtype),
                         .x = matrix(x),
                         .num_rows = x.rows,
                         .cols = x.cols,
                         .factor = factor},
                        state_.stream.get());
  check_launch("a multiplier");
}

void CudaArithmetic::softcap(Tensor x, float cap) {
  kernels::launch_softcap(
      {.type = type_of(x.dtype), .x = matrix(x), .num_rows = x.rows, .cols = x.cols, .cap = cap},
      state_.stream.get());
  check_launch("a soft cap");
}

void CudaArithmetic::matmul(Tensor x, std::span<const Product> products) {
  bool has_input = false;  // x is in int8_input
  while (!products.empty()) {
    const auto count = static_cast<size_t>(num_fusible(products));
    if (!is_int8(products.front())) {
      products_.run(x, products.first(count), workspace_, state_.stream.get());
    } else {
      if (!has_input) int8_.quantize(x);
      has_input = true;
      int8_.multiply(x, fuse(products, static_cast<int64_t>(count)));
    }
    products = products.subspan(count);
  }
}

// Products in int8 have nothing to choose.
void CudaArithmetic::prepare(std::span<const InputProducts> announced) {
  std::vector<InputProducts> products;
  for (const InputProducts& input : announced) {
    products.push_back(input);
    std::erase_if(products.back().products, is_int8);
  }
  constexpr double kMaxTimingMs = 200;
  const ProductBench bench = {.library = products_.library(),
                              .stream = state_.stream.get(),
                              .workspace = workspace_,
                              .memory = [&](int64_t bytes) -> char* {
                                // No step has been computed: the cache is empty.
                                for (CudaPiece* piece : {&state_.kv_piece, &state_.step_piece}) {
                                  piece->arena.end_step();
                                  if (char* const taken = piece->try_step(bytes)) return taken;
                                }
                                return nullptr;
                              }};
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "to look at the GPU");
  ProductCache cache(state_.options.product_cache,
                     fmt::format("{}, driver {}, cuBLAS {}, build {}", state_.device.name, driver,
                                 products_.library().version(), build_commit()));
  products_.prepare(products, bench, cache, kMaxTimingMs);
  state_.kv_piece.arena.end_step();
  state_.step_piece.arena.end_step();
}

void CudaArithmetic::rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale,
                                Tensor out) {
  CHECK(out.cols == 2 * inv_freq.cols && out.rows == positions.rows);
  kernels::launch_rope_table({.positions = ints(positions),
                              .inv_freq = floats(inv_freq),
                              .out = const_cast<float*>(floats(out)),
                              .out_stride = out.stride,
                              .num_rows = out.rows,
                              .half = static_cast<int>(inv_freq.cols),
                              .scale = scale.all,
                              .factors = scale.factors.empty() ? nullptr : floats(scale.factors),
                              .num_factors = static_cast<int>(scale.factors.cols),
                              .positions_per_factor = scale.positions_per_factor},
                             state_.stream.get());
  check_launch("a rope table");
}

void CudaArithmetic::rope(Tensor x, Tensor table, int head_dim) {
  CHECK(x.cols % head_dim == 0 && table.cols <= head_dim && x.rows == table.rows);
  kernels::launch_rope({.type = type_of(x.dtype),
                        .x = matrix(x),
                        .table = floats(table),
                        .table_stride = table.stride,
                        .num_rows = x.rows,
                        .heads = static_cast<int>(x.cols / head_dim),
                        .head_dim = head_dim,
                        .half = static_cast<int>(table.cols / 2)},
                       state_.stream.get());
  check_launch("rope");
}

void CudaArithmetic::gate(Tensor gate, Tensor up, Activation activation, Tensor out) {
  CHECK(same_shape(gate, up) && same_shape(gate, out));
  kernels::launch_gate({.type = type_of(out.dtype),
                        .gate = matrix(gate),
                        .up = matrix(up),
                        .out = matrix(out),
                        .num_rows = out.rows,
                        .cols = out.cols,
                        .gelu_tanh = activation == Activation::kGeluTanh},
                       state_.stream.get());
  check_launch("an activation");
}

void CudaArithmetic::write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) {
  CHECK(same_shape(k, v) && holds(cache, k.dtype) && slot_mapping.rows == k.rows);
  if (has_scales(cache.k.dtype)) {
    kernels::launch_qkv({.type = type_of(k.dtype),
                         .q = {nullptr, 0},
                         .k = matrix(k),
                         .v = matrix(v),
                         .num_rows = k.rows,
                         .slot_mapping = ints(slot_mapping),
                         .cache = cache_of(cache)},
                        state_.stream.get());
    return check_launch("a write to the cache");
  }
  kernels::launch_write_kv({.type = type_of(k.dtype),
                            .k = matrix(k),
                            .v = matrix(v),
                            .slot_mapping = ints(slot_mapping),
                            .num_rows = k.rows,
                            .cache = cache_of(cache)},
                           state_.stream.get());
  check_launch("a write to the cache");
}

void CudaArithmetic::rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                         const RopeTables& tables, Tensor slot_mapping,
                                         KvLayer cache) {
  CHECK(same_shape(k, v) && holds(cache, k.dtype) && q.dtype == k.dtype);
  CHECK(q.rows == k.rows && slot_mapping.rows == k.rows);
  CHECK(tables.k.empty() || tables.k.rows == k.rows);
  CHECK(same_shape(tables.q, tables.k) && tables.q.stride == tables.k.stride);
  CHECK(k.cols == int64_t{cache.kv_heads} * cache.head_dim && tables.k.cols <= cache.head_dim);
  CHECK(q.cols % cache.head_dim == 0);
  // The kernel normalizes heads.
  const auto is_of_heads = [&](const Tensor& norm) {
    return !norm.empty() && norm.cols == cache.head_dim;
  };
  for (const auto& [x, norm] : {std::pair(q, norms.q), {k, norms.k}}) {
    if (!norm.empty() && !is_of_heads(norm)) rms_norm(x, norm, norms.offset, norms.eps, x);
  }
  kernels::launch_qkv({.type = type_of(q.dtype),
                       .q = matrix(q),
                       .k = matrix(k),
                       .v = matrix(v),
                       .num_rows = q.rows,
                       .heads = static_cast<int>(q.cols / cache.head_dim),
                       .q_weight = is_of_heads(norms.q) ? floats(norms.q) : nullptr,
                       .k_weight = is_of_heads(norms.k) ? floats(norms.k) : nullptr,
                       .offset = norms.offset,
                       .eps = norms.eps,
                       .limit = norms.limit,
                       .q_table = tables.q.empty() ? nullptr : floats(tables.q),
                       .k_table = tables.k.empty() ? nullptr : floats(tables.k),
                       .table_stride = tables.k.stride,
                       .half = static_cast<int>(tables.k.cols / 2),
                       .slot_mapping = ints(slot_mapping),
                       .cache = cache_of(cache)},
                      state_.stream.get());
  check_launch("the write of q, k and v");
}

void CudaArithmetic::attention(Tensor q, KvLayer cache, const BatchView& batch,
                               const AttentionArgs& args, Tensor out) {
  CHECK(same_shape(q, out) && holds(cache, q.dtype) && args.kv_heads == cache.kv_heads);
  CHECK(args.head_dim == cache.head_dim && q.cols == int64_t{args.heads} * args.head_dim);
  const AttentionShape& planned = state_.options.attention;
  CHECK(args.heads == planned.group() * args.kv_heads);
  const auto window = std::ranges::find(planned.windows, args.window);
  CHECK(window != planned.windows.end());
  const auto plan = static_cast<size_t>(window - planned.windows.begin());
  const StepArrays::Plan& at = state_.step.at.plans[plan];
  const PlanShape& shape = state_.step.shape.plans[plan];
  const auto work = [&](const PackedRange& items, int64_t num_items) {
    return kernels::AttentionWork{
        reinterpret_cast<const kernels::AttentionItem*>(state_.step.arrays + items.first),
        static_cast<int>(num_items)};
  };
  kernels::launch_attention(
      {.type = type_of(q.dtype),
       .q = matrix(q),
       .out = matrix(out),
       .cache = cache_of(cache),
       .heads = args.heads,
       .scale = args.scale,
       .window = args.window,
       .softcap = args.softcap,
       .sinks = args.sinks.empty() ? nullptr : floats(args.sinks),
       .positions = ints(batch.positions),
       .query_starts = ints(batch.query_starts),
       .block_table = ints(batch.block_table),
       .num_tokens = static_cast<int>(batch.tokens.rows),
       .num_seqs = static_cast<int>(batch.context_lens.rows),
       .max_blocks = batch.max_blocks,
       .block_size = batch.block_size,
       .small = work(at.small_items, shape.small_items),
       .large = work(at.large_items, shape.large_items),
       .num_states = shape.states,
       .max_shared_bytes = static_cast<int>(state_.device.sharedMemPerBlockOptin),
       .restarts = state_.options.deterministic,
       .workspace = state_.step.attention_workspace,
       .counters = counters_},
      state_.stream.get());
  check_launch("attention");
}

void CudaArithmetic::gather_rows(Tensor x, Tensor indices, Tensor out) {
  CHECK(x.dtype == out.dtype && x.cols == out.cols && indices.rows == out.rows);
  kernels::launch_gather_rows({.type = type_of(out.dtype),
                               .x = matrix(x),
                               .indices = ints(indices),
                               .out = matrix(out),
                               .num_rows = out.rows,
                               .cols = out.cols},
                              state_.stream.get());
  check_launch("a gather of rows");
}

}  // namespace pagedinfer
