#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/backend_info.h"
#include "ops/ops.h"

namespace pagedinfer {

struct CudaOptions {
  int device = 0;
  // Of products, activations and the cache: kBF16, kF16, or kF32 (without TF32). Sums are
  // float32 in all of them.
  DType compute = DType::kBF16;
  // A row's bits depend on nothing else in its batch, at the price of speed.
  bool deterministic = false;
  // Steps that only decode are queued as graphs where their shape has been met before. Then
  // stage() gives them rows that belong to no sequence, behind the batch's.
  bool graphs = false;
};

// How many steps that only decode were queued in which way.
struct GraphCounts {
  int64_t queued = 0;    // as they come
  int64_t recorded = 0;  // as a graph that was made of them
  int64_t replayed = 0;  // as a graph of an earlier step
  int64_t failed = 0;    // graphs that could not be made or launched; counted as queued too
};

// An Ops on a GPU. Work is queued in order on one stream; only collect() and read() wait for it.
// Nothing is taken from the device after reserve(), but what the driver takes for graphs. An Error
// names the call that failed and says in words why; where the device can do no more it is a
// DeviceLost.
class CudaOps : public Ops {
 public:
  virtual std::string device_name() const = 0;
  virtual GraphCounts graph_counts() const = 0;

  // Copies between the host and a tensor of this Ops, element by element in rows. They wait.
  virtual void read(Tensor from, void* to) = 0;
  virtual void write(const void* from, Tensor to) = 0;
};

// "" if a GPU can be used, else what is missing: the build's backend, a driver, a device, cuBLAS.
std::string cuda_problem();

// Whether there is one, usable or not; a build without the backend sees none.
bool has_gpu();

// Throws Error with cuda_problem() if there is one.
std::unique_ptr<CudaOps> make_cuda_ops(const CudaOptions& options);

extern const BackendInfo kCudaInfo;

}  // namespace pagedinfer
