#pragma once

#include <cstdint>
#include <span>

#include "ops/arithmetic.h"
#include "ops/cpu/cpu_state.h"
#include "ops/cpu/host_memory.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The kernels of products with weights of this type in this layout.
const ProductKernels& product_of(const CpuOptions& options, DType weight, Layout layout);
// What products with such weights make of their input.
DType input_type(const CpuOptions& options, DType weight);
// Whether products with these weights, of equal columns, have the same packed input.
bool share_input(const Tensor& a, const Tensor& b);
// Where a thread begins to read the weights of the outputs from `output` on, which a panel begins
// with. Null if weights are in rows, whose products do not read on.
const void* panel_at(const Tensor& weights, int64_t output);
// Bytes of MatmulArgs::scratch that they need for each thread.
int64_t scratch_bytes(CpuIsa isa);

// Memory for the packed input of a product, which grows to the largest one.
class PackedRows {
 public:
  // An Error names `what` it is for.
  explicit PackedRows(const char* what) : what_(what) {}

  // Makes room for the products of steps within the bounds.
  void reserve(const StepBounds& bounds);
  static int64_t bytes(const StepBounds& bounds);

  // Memory for (rows, cols) numbers, valid until the next call.
  char* room_for(int64_t rows, int64_t cols);
  std::span<char> held() const { return {memory_.data(), static_cast<size_t>(memory_.size())}; }

 private:
  const char* const what_;
  HostMemory memory_;
};

// Arithmetic::matmul on the CPU, with the buffers that it reuses: packs the input once, then
// divides all its products into one list of tasks.
class CpuMatmul {
 public:
  // REQUIRES: the state outlives it.
  explicit CpuMatmul(CpuState& state);

  void run(Tensor x, std::span<const Product> products);

  // Packs x for products with `weight`, unless CpuGatedMatmul has packed it. Valid until the next
  // call.
  const void* pack_input(const Tensor& x, const Tensor& weight);
  // Products whose weights share the packed input of x.
  void multiply_packed(const Tensor& x, const void* packed, std::span<const Product> products);

  int threads_for(int64_t multiplications) const;
  void* scratch_of(int worker) const {
    return scratch_.data() + worker * scratch_bytes(state_.options.isa);
  }
  PackedRows& packed() { return packed_; }
  const PackedRows& packed() const { return packed_; }

 private:
  CpuState& state_;
  PackedRows packed_{"the input of a product"};
  HostMemory scratch_;  // of the kernels, per thread
};

}  // namespace pagedinfer
