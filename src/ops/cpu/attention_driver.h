#pragma once

#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/kv_layout.h"
#include "ops/cpu/thread_pool.h"
#include "ops/ops.h"

namespace pagedinfer {

// Memory that attend() uses again and again.
class AttentionWorkspace {
 public:
  explicit AttentionWorkspace(int num_threads) : workers_(num_threads) {}

 private:
  friend void attend(const Kernels&, ThreadPool&, Tensor, const KvLayer&, const BatchView&,
                     const AttentionArgs&, AttentionWorkspace&, Tensor);
  struct Worker {
    alignas(64) float q[kMaxAttentionRows * kMaxHeadDim];
    alignas(64) float out[2][kMaxAttentionRows * kMaxHeadDim];
    float largest[2][kMaxAttentionRows], sum[2][kMaxAttentionRows];
    int positions[kMaxAttentionRows];

    AttentionState state(int i) { return {largest[i], sum[i], out[i]}; }
  };
  struct Task {
    int seq, first_row, num_rows;  // rows are pairs (token, head of the group)
  };
  std::vector<Worker> workers_;
  std::vector<Task> tasks_;
};

// Ops::attention.
void attend(const Kernels& kernels, ThreadPool& pool, Tensor q, const KvLayer& cache,
            const BatchView& batch, const AttentionArgs& args, AttentionWorkspace& workspace,
            Tensor out);

}  // namespace pagedinfer
