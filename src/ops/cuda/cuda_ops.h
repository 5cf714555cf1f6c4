#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/attention_shape.h"
#include "ops/backend_info.h"
#include "ops/ops.h"

namespace pagedinfer {

struct CudaOptions {
  int device = 0;
  // The type of products, activations and the cache: kBF16, kF16, or kF32 (without TF32). Sums are
  // float32 in all of them.
  DType compute = DType::kBF16;
  // The bits of a row do not depend on the rest of its batch; slower.
  bool deterministic = false;
  // Decode steps are queued as CUDA graphs if their shape has occurred before. For that stage()
  // pads them with rows that belong to no sequence, after those of the batch.
  bool graphs = false;
  // A folder for a file of algorithms that were timed; "": they are timed anew.
  std::string product_cache = {};
  AttentionShape attention = {};  // of all steps: stage() plans it
};

// The number of decode steps by how they were queued.
struct GraphCounts {
  int64_t eager = 0;     // call by call
  int64_t captured = 0;  // as a graph that was captured for the step
  int64_t replayed = 0;  // as a graph of an earlier step
  int64_t failed = 0;    // graphs that could not be made or launched; these steps are eager too
};

// An Ops on a GPU. Work is queued on one stream; only collect(), read() and write() wait for it.
// Device memory is allocated by reserve_weights(), reserve_kv() and reserve_steps() only, except
// what the driver allocates for graphs. An Error names the call that failed and the reason; it is a
// DeviceLost if the device can do no more work.
class CudaOps : public Ops {
 public:
  virtual std::string device_name() const = 0;
  virtual GraphCounts graph_counts() const = 0;

  // Copy between the host, without gaps between rows, and a tensor of this Ops. They wait.
  virtual void read(Tensor from, void* to) = 0;
  virtual void write(const void* from, Tensor to) = 0;
};

// "" if a GPU can be used, else what is missing: a build with CUDA, a driver, a device that starts,
// cuBLAS. Starts the device.
std::string cuda_problem();

// Whether there is a GPU, usable or not. A build without CUDA sees none.
bool has_gpu();

// Why the first start on this machine takes longer; "": it does not, or the GPU cannot be used.
std::string cuda_first_start();

// Throws Error with cuda_problem() if there is one.
std::unique_ptr<CudaOps> make_cuda_ops(const CudaOptions& options);

extern const BackendInfo kCudaInfo;

}  // namespace pagedinfer
