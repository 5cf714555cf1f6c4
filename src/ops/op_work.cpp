#include "ops/op_work.h"

#include <algorithm>

namespace pagedinfer {
namespace {

double size(const Tensor& x) { return static_cast<double>(x.bytes()); }

// The triangle 1 + 2 + ... + n.
int64_t sum_to(int64_t n) { return n * (n + 1) / 2; }

}  // namespace

OpWork work_of(std::initializer_list<Tensor> moved) {
  OpWork work;
  for (const Tensor& x : moved) work.bytes += size(x);
  return work;
}

OpWork embed_work(Tensor table, Tensor tokens, Tensor out) {
  table.rows = tokens.rows;
  return work_of({table, tokens, out});
}

OpWork matmul_work(Tensor x, std::span<const Product> products) {
  OpWork work = {.bytes = size(x)};
  for (const Product& product : products) {
    work.bytes += size(product.weight) + size(product.out);
    const double flops = 2.0 * static_cast<double>(x.rows) *
                         static_cast<double>(product.weight.rows) *
                         static_cast<double>(product.weight.cols);
    work.flops += flops;
    const DType type = product.weight.dtype;
    if (type == DType::kI8 || type == DType::kI4) work.int8_flops += flops;
  }
  return work;
}

OpWork gated_matmul_work(Tensor x, const GatedProducts& products, Tensor out) {
  const Product both[] = {products.gate, products.up};
  OpWork work = matmul_work(x, both);
  work.bytes += size(out) - size(products.gate.out) - size(products.up.out) +
                size(products.gate_bias) + size(products.up_bias);
  return work;
}

OpWork route_work(Tensor x, const Router& router, const ExpertChoice& choice) {
  OpWork work =
      work_of({x, router.weight, router.bias, router.shared_gate, choice.experts, choice.weights});
  work.flops = 2.0 * static_cast<double>(x.rows) * static_cast<double>(x.cols) *
               static_cast<double>(router.weight.rows + router.shared_gate.rows);
  return work;
}

OpWork experts_work(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                    std::span<const int32_t> starts, std::span<const Expert> experts, Tensor out) {
  OpWork work = work_of({x, choice.experts, choice.weights, groups.numbers, groups.starts, out});
  // The last expert may be a shared one, which every row has.
  const auto rows_of = [&](size_t i) -> int64_t {
    if (!starts.empty()) return starts[i + 1] - starts[i];
    return std::ssize(experts) - static_cast<int64_t>(i) == 1 ||
                   static_cast<int64_t>(i) < choice.experts.cols - 1
               ? x.rows
               : 0;
  };
  for (size_t i = 0; i < experts.size(); ++i) {
    const int64_t rows = rows_of(i);
    if (rows == 0) continue;
    const Expert& expert = experts[i];
    for (const Tensor* bias : {&expert.gate_bias, &expert.up_bias, &expert.down_bias}) {
      work.bytes += size(*bias);
    }
    for (const Tensor* matrix : {&expert.gate, &expert.up, &expert.down}) {
      Tensor in = x, product = x;  // in between: neither is counted
      in.rows = product.rows = rows;
      in.cols = matrix->cols;
      product.cols = matrix->rows;
      const Product products[] = {{*matrix, product}};
      const OpWork one = matmul_work(in, products);
      work.bytes += one.bytes - size(in) - size(product);
      work.flops += one.flops;
      work.int8_flops += one.int8_flops;
    }
  }
  return work;
}

OpWork copy_kv_work(std::span<const KvCopy> copies, std::span<const KvLayer> cache) {
  int64_t num_positions = 0, bytes = 0;
  for (const KvCopy& copy : copies) num_positions += copy.count;
  for (const KvLayer& layer : cache) {
    bytes += 2 * layer.kv_heads * layer.head_bytes();
  }
  return {.bytes = 2.0 * static_cast<double>(num_positions) * static_cast<double>(bytes)};
}

OpWork write_kv_work(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) {
  OpWork work = work_of({k, v, slot_mapping});
  work.bytes += static_cast<double>((k.rows + v.rows) * cache.kv_heads * cache.head_bytes());
  return work;
}

OpWork rotate_and_write_kv_work(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                const RopeTables& tables, Tensor slot_mapping, KvLayer cache) {
  OpWork work = write_kv_work(k, v, slot_mapping, cache);
  work.bytes += 2 * size(q) + size(norms.q) + size(norms.k) + size(tables.k);
  if (tables.q.data != tables.k.data) work.bytes += size(tables.q);
  return work;
}

AttendedKeys attended_keys(const Batch& batch, int window) {
  AttendedKeys keys;
  for (int s = 0; s < batch.num_seqs(); ++s) {
    const int64_t end = batch.context_lens[static_cast<size_t>(s)];
    const int64_t num_queries =
        batch.query_starts[static_cast<size_t>(s) + 1] - batch.query_starts[static_cast<size_t>(s)];
    const int64_t first = end - num_queries;
    if (window == 0) {
      keys.read += end;
      keys.seen += sum_to(end) - sum_to(first);
      continue;
    }
    keys.read += std::min(end, num_queries + window - 1);
    // The first queries see all keys before them; later ones see a full window.
    const int64_t growing = std::clamp<int64_t>(window - first, 0, num_queries);
    keys.seen += sum_to(first + growing) - sum_to(first) + (num_queries - growing) * window;
  }
  return keys;
}

OpWork attention_work(Tensor q, KvLayer cache, AttendedKeys keys, const AttentionArgs& args,
                      Tensor out) {
  OpWork work = work_of({q, out});
  work.bytes += 2.0 * static_cast<double>(keys.read) * args.kv_heads *
                static_cast<double>(cache.head_bytes());
  work.flops = 4.0 * static_cast<double>(keys.seen) * args.heads * args.head_dim;
  return work;
}

}  // namespace pagedinfer
