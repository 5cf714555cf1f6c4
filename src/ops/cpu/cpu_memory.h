#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/cpu_arithmetic.h"
#include "ops/cpu/cpu_state.h"
#include "ops/cpu/cpu_steps.h"
#include "ops/cpu/host_memory.h"
#include "ops/cpu/int4_format.h"
#include "ops/cpu/prefaulter.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The DeviceMemory of make_cpu_ops(): weights and caches, and the sizes of all parts.
class CpuMemory final : public DeviceMemory {
 public:
  // REQUIRES: all arguments outlive it.
  CpuMemory(CpuState& state, CpuArithmetic& arithmetic, CpuSteps& steps)
      : state_(state), arithmetic_(arithmetic), steps_(steps) {}

  Tensor allocate(DType dtype, int64_t rows, int64_t cols) override;
  Tensor upload(Tensor host, DType dtype) override;
  Tensor upload_matrix(Tensor host, DType dtype) override;
  Tensor upload_seldom_read(Tensor host, DType dtype) override;
  Tensor upload_matrix(const RowSource& source, DType dtype) override;
  void add_low_rank(const LowRankRow& row, int64_t first, int64_t n, float* y) const override;
  bool packs(DType dtype) const override;
  int64_t matrix_bytes(Tensor host, DType dtype) const override;
  Tensor upload_codes(const CodeSource& source) override;
  int64_t codes_bytes(const CodeSource& source) const override { return int4_bytes(source); }
  void reserve_kv(int64_t bytes) override;
  KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) override;
  void clear_kv() override { kv_used_ = 0; }
  int64_t kv_bytes(DType dtype, int kv_heads, int head_dim, int64_t num_positions) const override;
  int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const override;
  int64_t workspace_bytes(const StepBounds& bounds) const override;
  int64_t thread_bytes(const StepBounds& bounds) const override;
  void reserve_steps(const StepBounds& bounds, int64_t bytes) override;
  void make_present() override;
  int64_t held_bytes() const override;
  DType bias_type(DType) const override { return DType::kF32; }

 private:
  // Calls f(first, count, worker) for the rows of a matrix of weights, in parallel.
  template <class F>
  void for_weight_rows(int64_t rows, const F& f);
  char* take_packed(int64_t bytes);

  CpuState& state_;
  CpuArithmetic& arithmetic_;
  CpuSteps& steps_;
  std::vector<HostMemory> permanent_;
  std::vector<HostMemory> regions_;  // of packed weights
  std::span<char> room_;             // of the last region
  int64_t taken_of_regions_ = 0;
  HostMemory kv_;                // the piece that caches lie in
  int64_t kv_used_ = 0;          // of it
  int64_t first_positions_ = 0;  // of a cache: made present before they are used
  Prefaulter prefaulter_;        // last: stops before the memory goes
};

}  // namespace pagedinfer
