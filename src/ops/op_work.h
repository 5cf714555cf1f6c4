// The minimum work of an operation, from its arguments alone: each byte is counted once, and only
// bytes that every implementation must move. Only matrix products and attention have flops.
#pragma once

#include <initializer_list>
#include <span>

#include "core/batch.h"
#include "core/profile.h"
#include "ops/arithmetic.h"

namespace pagedinfer {

// The work of an operation that moves each of these matrices once.
OpWork work_of(std::initializer_list<Tensor> moved);

// Counts the rows of the table that the tokens select.
OpWork embed_work(Tensor table, Tensor tokens, Tensor out);
// Counts the input once for all products, and weights in int8 without their scales.
OpWork matmul_work(Tensor x, std::span<const Product> products);
// Counts `out` in place of the outputs of the products.
OpWork gated_matmul_work(Tensor x, const GatedProducts& products, Tensor out);
OpWork route_work(Tensor x, const Router& router, const ExpertChoice& choice);
// Counts the weights of the experts that have a row, by Arithmetic::starts_on_host(). Without these
// starts it counts as if all rows had chosen the same experts.
OpWork experts_work(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                    std::span<const int32_t> starts, std::span<const Expert> experts, Tensor out);
// Reads and writes the keys and values of every position in every layer.
OpWork copy_kv_work(std::span<const KvCopy> copies, std::span<const KvLayer> cache);
OpWork write_kv_work(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache);
// Counts the tables of q and k once if they are the same.
OpWork rotate_and_write_kv_work(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                const RopeTables& tables, Tensor slot_mapping, KvLayer cache);

// Numbers of keys in a step, over all of its sequences.
struct AttendedKeys {
  int64_t read = 0;  // keys that any query sees, each counted once
  int64_t seen = 0;  // pairs of a query and a key that it sees
};
// `window` as in AttentionArgs.
AttendedKeys attended_keys(const Batch& batch, int window);

// Counts two products (q k and p v) for each query head and each key that it sees.
OpWork attention_work(Tensor q, KvLayer cache, AttendedKeys keys, const AttentionArgs& args,
                      Tensor out);

}  // namespace pagedinfer
