#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/build_facts.h"
#include "core/check.h"
#include "core/error.h"
#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/cuda_arithmetic.h"
#include "ops/cuda/cuda_memory.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cuda_state.h"
#include "ops/cuda/cuda_steps.h"
#include "ops/cuda/cuda_timing.h"
#include "ops/cuda/machine_code.h"

namespace pagedinfer {
namespace {

constexpr int kMinCapability = 8;
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// What the driver says about GPUs, if there is a driver.
struct Found {
  int driver = 0;
  cudaError_t status = cudaSuccess;  // of counting
  int count = 0;

  bool none() const { return status == cudaErrorNoDevice || (status == cudaSuccess && count == 0); }
};

Found find_gpus() {
  Found found;
  static_cast<void>(cudaDriverGetVersion(&found.driver));
  found.status = cudaGetDeviceCount(&found.count);
  static_cast<void>(cudaGetLastError());
  return found;
}

class CudaBackend final : public CudaOps {
 public:
  explicit CudaBackend(const CudaOptions& options) : state_(options) {}
  ~CudaBackend() override {
    // Queued work still uses the memory that is freed next.
    static_cast<void>(cudaStreamSynchronize(state_.stream.get()));
  }

  DeviceMemory& memory() override { return memory_; }
  StepProtocol& steps() override { return steps_; }
  Arithmetic& arithmetic() override { return arithmetic_; }
  Timing& timing() override { return timing_; }

  std::string description() const override {
    return fmt::format("cuda ({}, {}{})", device_name(), name_of(state_.options.compute),
                       state_.options.deterministic ? ", deterministic" : "");
  }
  std::string device_name() const override { return state_.device.name; }
  std::string arithmetic_name() const override { return arithmetic_.name(); }
  std::optional<ProductChoices> product_choices() const override {
    return arithmetic_.product_choices();
  }
  GraphCounts graph_counts() const override { return steps_.graph_counts(); }

  void read(Tensor from, void* to) override {
    const auto row_bytes = static_cast<size_t>(from.cols * size_of(from.dtype));
    check_cuda(cudaMemcpy2DAsync(to, row_bytes, from.data,
                                 static_cast<size_t>(from.stride * size_of(from.dtype)), row_bytes,
                                 static_cast<size_t>(from.rows), cudaMemcpyDeviceToHost,
                                 state_.stream.get()),
               "a copy from the GPU");
    wait("a copy from the GPU");
  }

  void write(const void* from, Tensor to) override {
    const auto row_bytes = static_cast<size_t>(to.cols * size_of(to.dtype));
    check_cuda(cudaMemcpy2DAsync(to.data, static_cast<size_t>(to.stride * size_of(to.dtype)), from,
                                 row_bytes, row_bytes, static_cast<size_t>(to.rows),
                                 cudaMemcpyHostToDevice, state_.stream.get()),
               "a copy to the GPU");
    wait("a copy to the GPU");
  }

 private:
  void wait(const char* what) { check_cuda(cudaStreamSynchronize(state_.stream.get()), what); }

  CudaState state_;
  CudaArithmetic arithmetic_{state_};
  CudaSteps steps_{state_};
  CudaTiming timing_{state_};
  CudaMemory memory_{state_, arithmetic_, steps_};
};

}  // namespace

std::string cuda_problem() {
  const Found gpus = find_gpus();
  const cudaError_t status = gpus.status;
  if (gpus.driver == 0) return "this machine has no NVIDIA driver";
  if (status == cudaErrorInsufficientDriver) {
    int runtime = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    return fmt::format("the NVIDIA driver is for CUDA {}, this build needs {}",
                       version_text(gpus.driver), version_text(runtime));
  }
  if (gpus.none()) return "the NVIDIA driver finds no GPU";
  if (status != cudaSuccess) return fmt::format("CUDA: {}", cudaGetErrorString(status));
  cudaDeviceProp properties = {};
  if (const cudaError_t found = cudaGetDeviceProperties(&properties, 0); found != cudaSuccess) {
    return fmt::format("CUDA: {}", cudaGetErrorString(found));
  }
  if (properties.major < kMinCapability) {
    return fmt::format("{}: compute capability {}.{}, needed is {}.0", properties.name,
                       properties.major, properties.minor, kMinCapability);
  }
  const cudaError_t started = cudaSetDevice(0);
  static_cast<void>(cudaGetLastError());
  if (started == cudaErrorDevicesUnavailable) {
    return fmt::format("{} is held by another program, or closed to all of them ({})",
                       properties.name, cudaGetErrorString(started));
  }
  if (started != cudaSuccess) {
    return fmt::format("{} does not start: {}", properties.name, cudaGetErrorString(started));
  }
  return CublasLt::problem();
}

bool has_gpu() {
  const Found gpus = find_gpus();
  return gpus.driver != 0 && !gpus.none();
}

std::string cuda_first_start() {
  constexpr std::string_view kFor = " for ";
  std::string_view built = build_facts().cuda;
  const size_t at = built.find(kFor);
  if (at == built.npos || !cuda_problem().empty()) return "";
  built.remove_prefix(at + kFor.size());
  cudaDeviceProp gpu = {};
  check_cuda(cudaGetDeviceProperties(&gpu, 0), "to look at the GPU");
  if (has_machine_code(built, gpu.major, gpu.minor)) return "";
  return fmt::format(
      "the driver makes machine code for {} (compute capability {}.{}) at the first start, which "
      "takes longer",
      gpu.name, gpu.major, gpu.minor);
}

std::unique_ptr<CudaOps> make_cuda_ops(const CudaOptions& options) {
  if (const std::string problem = cuda_problem(); !problem.empty()) throw Error(problem);
  CHECK(options.compute != DType::kI32);
  return std::make_unique<CudaBackend>(options);
}

}  // namespace pagedinfer
