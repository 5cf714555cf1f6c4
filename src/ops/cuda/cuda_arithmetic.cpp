// CudaBackend's calls of kernels/ and of cuBLAS.
#include <fmt/format.h>

#include <algorithm>

#include "core/build_facts.h"
#include "core/check.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/int8_panels.h"
#include "kernels/int8_product.h"
#include "kernels/int8_rows.h"
#include "kernels/kv.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernel_arguments.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_proof.h"
#include "ops/cuda/step_memory.h"

namespace pagedinfer {
namespace {

kernels::KvCache cache_of(const KvLayer& layer) {
  return {.k = layer.k.data,
          .v = layer.v.data,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.head_dim,
          .num_positions = layer.num_positions,
          .k_scale = static_cast<float*>(layer.k_scale.data),
          .v_scale = static_cast<float*>(layer.v_scale.data)};
}
// Whether a cache can hold what is computed in this type.
bool holds(const KvLayer& cache, DType computed) {
  return cache.k.dtype == computed || has_scales(cache.k.dtype);
}
bool is_int8(const Product& product) { return product.weight.dtype == DType::kI8; }

}  // namespace

void CudaBackend::embed(Tensor table, Tensor tokens, float scale, Tensor out) {
  CHECK(table.cols == out.cols && tokens.rows == out.rows);
  if (table.dtype == DType::kI8) {
    kernels::launch_embed_int8({.type = type_of(out.dtype),
                                .table = table.data,
                                .tokens = ints(tokens),
                                .scale = scale,
                                .out = matrix(out),
                                .num_rows = out.rows,
                                .cols = out.cols},
                               stream_.get());
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
                        stream_.get());
  check_launch("embedding");
}

void CudaBackend::norm(Tensor x, Tensor x_weight, kernels::Matrix residual, Tensor weight,
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
                           stream_.get());
  check_launch("a norm");
}

void CudaBackend::rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) {
  norm(x, {}, {nullptr, 0}, weight, offset, eps, out);
}

void CudaBackend::add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                               Tensor out) {
  CHECK(same_shape(x, y));
  norm(y, {}, matrix(x), weight, offset, eps, out);
}

void CudaBackend::norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight,
                                    float offset, float eps, Tensor out) {
  CHECK(same_shape(x, y));
  norm(y, y_weight, matrix(x), weight, offset, eps, out);
}

void CudaBackend::add(Tensor x, Tensor y) {
  CHECK(same_shape(x, y));
  kernels::launch_add({.type = type_of(x.dtype),
                       .x = matrix(x),
                       .y = matrix(y),
                       .num_rows = x.rows,
                       .cols = x.cols,
                       .y_is_one_row = false},
                      stream_.get());
  check_launch("a sum");
}

void CudaBackend::add_bias(Tensor x, Tensor bias) {
  CHECK(bias.rows == 1 && bias.cols == x.cols && bias.dtype == x.dtype);
  kernels::launch_add({.type = type_of(x.dtype),
                       .x = matrix(x),
                       .y = matrix(bias),
                       .num_rows = x.rows,
                       .cols = x.cols,
                       .y_is_one_row = true},
                      stream_.get());
  check_launch("a bias");
}

void CudaBackend::scale(Tensor x, float factor) {
  kernels::launch_scale({.type = type_of(x.dtype),
                         .x = matrix(x),
                         .num_rows = x.rows,
                         .cols = x.cols,
                         .factor = factor},
                        stream_.get());
  check_launch("a multiplier");
}

void CudaBackend::softcap(Tensor x, float cap) {
  kernels::launch_softcap(
      {.type = type_of(x.dtype), .x = matrix(x), .num_rows = x.rows, .cols = x.cols, .cap = cap},
      stream_.get());
  check_launch("a soft cap");
}

void CudaBackend::matmul(Tensor x, std::span<const Product> products) {
  bool has_input = false;  // x is in int8_input
  while (!products.empty()) {
    const auto count = static_cast<size_t>(num_fusible(products));
    if (!is_int8(products.front())) {
      products_.run(x, products.first(count), fixed_.product_workspace, stream_.get());
    } else {
      if (!has_input) quantize(x);
      has_input = true;
      multiply_int8(x, fuse(products, static_cast<int64_t>(count)));
    }
    products = products.subspan(count);
  }
}

void CudaBackend::quantize(Tensor x) {
  CHECK(kernels::int8_input_bytes(x.rows, x.cols) <= fixed_.int8_bytes);
  kernels::launch_quantize({.type = type_of(x.dtype),
                            .x = matrix(x),
                            .num_rows = x.rows,
                            .cols = x.cols,
                            .out = fixed_.int8_input},
                           stream_.get());
  check_launch("the input of a product in int8");
}

void CudaBackend::multiply_int8(Tensor x, const Product& product) {
  const Tensor &weight = product.weight, &out = product.out;
  CHECK(weight.cols == x.cols && out.rows == x.rows && out.cols == weight.rows);
  CHECK(weight.layout == Layout::kPanels);
  kernels::launch_int8_product({.type = type_of(out.dtype),
                                .input = fixed_.int8_input,
                                .weights = weight.data,
                                .out = matrix(out),
                                .num_rows = x.rows,
                                .cols = x.cols,
                                .outputs = weight.rows,
                                .multiprocessors = device_.multiProcessorCount},
                               stream_.get());
  check_launch("a product in int8");
}

// Products in int8 have nothing to choose.
void CudaBackend::prepare(std::span<const InputProducts> announced) {
  std::vector<InputProducts> products;
  for (const InputProducts& input : announced) {
    products.push_back(input);
    std::erase_if(products.back().products, is_int8);
  }
  constexpr double kMaxTimingMs = 200;
  const ProductBench bench = {.library = products_.library(),
                              .stream = stream_.get(),
                              .workspace = fixed_.product_workspace,
                              .memory = [&](int64_t bytes) -> char* {
                                // No step has been computed: the cache is empty.
                                for (CudaPiece* piece : {&kv_, &steps_}) {
                                  piece->arena.end_step();
                                  if (const auto offset = piece->arena.take_step(bytes)) {
                                    return piece->memory.get() + *offset;
                                  }
                                }
                                return nullptr;
                              }};
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "to look at the GPU");
  ProductCache cache(options_.product_cache,
                     fmt::format("{}, driver {}, cuBLAS {}, build {}", device_.name, driver,
                                 products_.library().version(), build_commit()));
  products_.prepare(products, bench, cache, kMaxTimingMs);
  kv_.arena.end_step();
  steps_.arena.end_step();
}

void CudaBackend::rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale,
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
                             stream_.get());
  check_launch("a rope table");
}

void CudaBackend::rope(Tensor x, Tensor table, int head_dim) {
  CHECK(x.cols % head_dim == 0 && table.cols <= head_dim && x.rows == table.rows);
  kernels::launch_rope({.type = type_of(x.dtype),
                        .x = matrix(x),
                        .table = floats(table),
                        .table_stride = table.stride,
                        .num_rows = x.rows,
                        .heads = static_cast<int>(x.cols / head_dim),
                        .head_dim = head_dim,
                        .half = static_cast<int>(table.cols / 2)},
                       stream_.get());
  check_launch("rope");
}

void CudaBackend::gate(Tensor gate, Tensor up, Activation activation, Tensor out) {
  CHECK(same_shape(gate, up) && same_shape(gate, out));
  kernels::launch_gate({.type = type_of(out.dtype),
                        .gate = matrix(gate),
                        .up = matrix(up),
                        .out = matrix(out),
                        .num_rows = out.rows,
                        .cols = out.cols,
                        .gelu_tanh = activation == Activation::kGeluTanh},
                       stream_.get());
  check_launch("an activation");
}

void CudaBackend::copy_kv(const BatchView& batch, std::span<const KvLayer> cache) {
  for (size_t first = 0; first < batch.copies.size(); first += kCopiesAtOnce) {
    const auto copies =
        batch.copies.subspan(first, std::min<size_t>(kCopiesAtOnce, batch.copies.size() - first));
    const size_t count = copies.size();
    auto* const host = reinterpret_cast<int32_t*>(fixed_.copies.next());
    for (size_t i = 0; i < count; ++i) {
      host[i] = copies[i].source;
      host[count + i] = copies[i].destination;
      host[2 * count + i] = copies[i].count;
    }
    fixed_.copies.send(fixed_.copy_arrays, static_cast<int64_t>(3 * count * sizeof(int32_t)),
                       stream_.get());
    for (const KvLayer& layer : cache) {
      kernels::launch_copy_kv({.type = type_of(options_.compute),
                               .from = fixed_.copy_arrays,
                               .to = fixed_.copy_arrays + count,
                               .counts = fixed_.copy_arrays + 2 * count,
                               .num_copies = static_cast<int>(count),
                               .cache = cache_of(layer)},
                              stream_.get());
    }
    check_cuda(cudaGetLastError(), "copies in the cache");
  }
}

void CudaBackend::write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) {
  CHECK(same_shape(k, v) && holds(cache, k.dtype) && slot_mapping.rows == k.rows);
  if (has_scales(cache.k.dtype)) {
    kernels::launch_qkv({.type = type_of(k.dtype),
                         .q = {nullptr, 0},
                         .k = matrix(k),
                         .v = matrix(v),
                         .num_rows = k.rows,
                         .slot_mapping = ints(slot_mapping),
                         .cache = cache_of(cache)},
                        stream_.get());
    return check_launch("a write to the cache");
  }
  kernels::launch_write_kv({.type = type_of(k.dtype),
                            .k = matrix(k),
                            .v = matrix(v),
                            .slot_mapping = ints(slot_mapping),
                            .num_rows = k.rows,
                            .cache = cache_of(cache)},
                           stream_.get());
  check_launch("a write to the cache");
}

void CudaBackend::rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
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
                      stream_.get());
  check_launch("the write of q, k and v");
}

void CudaBackend::attention(Tensor q, KvLayer cache, const BatchView& batch,
                            const AttentionArgs& args, Tensor out) {
  CHECK(same_shape(q, out) && holds(cache, q.dtype) && args.kv_heads == cache.kv_heads);
  CHECK(args.head_dim == cache.head_dim && q.cols == int64_t{args.heads} * args.head_dim);
  CHECK(args.heads == group_of(bounds_) * args.kv_heads);  // what the step's plan is for
  const auto window = std::ranges::find(bounds_.windows, args.window);
  CHECK(window != bounds_.windows.end());
  const auto plan = static_cast<size_t>(window - bounds_.windows.begin());
  const StepArrays::Plan& at = step_.at.plans[plan];
  const PlanShape& shape = step_.shape.plans[plan];
  const auto work = [&](const PackedRange& items, int64_t num_items) {
    return kernels::AttentionWork{
        reinterpret_cast<const kernels::AttentionItem*>(step_.arrays + items.first),
        static_cast<int>(num_items)};
  };
  kernels::launch_attention({.type = type_of(q.dtype),
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
                             .max_shared_bytes = static_cast<int>(device_.sharedMemPerBlockOptin),
                             .restarts = options_.deterministic,
                             .workspace = step_.attention_workspace,
                             .counters = fixed_.counters},
                            stream_.get());
  check_launch("attention");
}

void CudaBackend::gather_rows(Tensor x, Tensor indices, Tensor out) {
  CHECK(x.dtype == out.dtype && x.cols == out.cols && indices.rows == out.rows);
  kernels::launch_gather_rows({.type = type_of(out.dtype),
                               .x = matrix(x),
                               .indices = ints(indices),
                               .out = matrix(out),
                               .num_rows = out.rows,
                               .cols = out.cols},
                              stream_.get());
  check_launch("a gather of rows");
}

}  // namespace pagedinfer
