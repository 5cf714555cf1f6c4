#pragma once

#include <memory>
#include <vector>

#include "ops/arithmetic.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/kv_layout.h"
#include "ops/cpu/thread_pool.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The kernels of an instruction set for a cache of this type.
AttentionKernels attention_of(CpuIsa isa, DType cache);

// Arithmetic::attention on the CPU, with the buffers that it reuses.
//
// The work is divided into items. An item is a set of query rows of one sequence, where a row is a
// pair (token, query head within its group); it is computed once for each KV head. If there are too
// few items for the threads, items with few rows and a long context are divided further into tasks
// of some segments each, whose states are combined in ascending order.
class CpuAttention {
 public:
  CpuAttention(CpuIsa isa, ThreadPool& pool);

  // Of the buffers, for steps within the bounds and heads of `head_dim`.
  int64_t max_bytes(const StepBounds& bounds, int head_dim) const;

  void run(Tensor q, const KvLayer& cache, const BatchView& batch, const AttentionArgs& args,
           Tensor out);

 private:
  struct Item {
    int seq, first_row, num_rows;
    int first_segment, end_segment;
    int64_t states = -1;  // index in states_ of its first state; -1: one task computes it all
  };
  struct Task {
    int item, first_segment, end_segment;
  };
  struct Worker {
    alignas(64) float q[kMaxAttentionRows * kMaxHeadDim];
    alignas(64) float out[kMaxAttentionRows * kMaxHeadDim];
    alignas(64) float scratch[kAttentionScratch];
    float largest[kMaxAttentionRows], sum[kMaxAttentionRows];
    int positions[kMaxAttentionRows];
  };
  struct Call;  // the arguments of run()

  void plan(const Call& call);
  KeysAfter first_keys(const Call& call, const Task& task, int kv_head) const;
  void compute(const Call& call, const Task& task, int kv_head, const KeysAfter& after,
               Worker& worker);
  void combine(const Call& call, const Item& item, int kv_head);
  void finish(const Call& call, const Item& item, int kv_head, AttentionState total);
  // The state of one segment of an item that several tasks compute.
  AttentionState shared_state(const Call& call, const Item& item, int kv_head, int segment);

  const CpuIsa isa_;
  ThreadPool& pool_;
  const std::unique_ptr<Worker[]> workers_;  // one for each thread
  std::vector<Item> items_;
  std::vector<int> shared_items_;
  std::vector<Task> tasks_;
  std::vector<float> states_;
};

}  // namespace pagedinfer
