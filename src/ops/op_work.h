// The work of an operation by its arguments alone: no byte is counted twice, and nothing that a
// better kernel could do without. Only matrix products and attention have flops.
#pragma once

#include <initializer_list>
#include <span>

#include "core/batch.h"
#include "core/profile.h"
#include "ops/arithmetic.h"

namespace pagedinfer {

// What moves each of these matrices, or column vectors, once.
OpWork work_of(std::initializer_list<Tensor> moved);

// Reads the rows of the table that the tokens name.
OpWork embed_work(Tensor table, Tensor tokens, Tensor out);
// Reads the input once for all products.
OpWork matmul_work(Tensor x, std::span<const Product> products);
OpWork write_kv_work(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache);
OpWork rotate_and_write_kv_work(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                Tensor rope_table, Tensor slot_mapping, KvLayer cache);

// Keys of a step, over all of its sequences.
struct AttendedKeys {
  int64_t read = 0;  // each once, however many of the sequence's queries see it
  int64_t seen = 0;  // once for every query
};
// `window` as in AttentionArgs.
AttendedKeys attended_keys(const Batch& batch, int window);

// Two products for each query head and key that it sees.
OpWork attention_work(Tensor q, KvLayer cache, AttendedKeys keys, const AttentionArgs& args,
                      Tensor out);

}  // namespace pagedinfer
