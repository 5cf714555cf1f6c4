#include "kernels/expert_choice.h"
#include "kernels/sample.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/peaks.h"

namespace pagedinfer {
namespace {

DeviceOptions resolve(const DeviceOptions& asked) {
  DeviceOptions options = asked;
  options.cpu_isa.reset();
  return options;
}

constexpr DType kCacheTypes[] = {DType::kI8};

std::unique_ptr<Ops> make(const DeviceOptions& options) {
  return make_cuda_ops({.compute = options.compute,
                        .deterministic = options.deterministic,
                        .graphs = true,
                        .product_cache = options.cache_folder,
                        .attention = options.attention});
}

DevicePeaks peaks(const DeviceOptions& options, Quantization quantize,
                  const std::function<double()>& clock) {
  constexpr PeakProbe kProbe = {.copied_bytes = 512 << 20, .rows = 8192, .width = 4096};
  return measure_peaks(*make(options), options.compute, kProbe, clock, quantize);
}

}  // namespace

constinit const BackendInfo kCudaInfo = {
    .name = "cuda",
    .device = "the GPU",
    .problem = cuda_problem,
    .is_present = has_gpu,
    .first_start = cuda_first_start,
    .resolve = resolve,
    .make = make,
    .cache_types = kCacheTypes,
    .always_deterministic = false,
    .warms_up = true,
    .overlaps = true,
    .max_vocab = kernels::kMaxVocabulary,
    .max_experts = kernels::kMaxExperts,
    .experts_note = "plain kernels compute experts on the GPU, far below its speed",
    .usual_step_tokens = 8192,
    .memory = {.usual_share = 1,
               .max_share = 1,
               .name = "GPU memory",
               .place = " on the GPU",
               .limit = "",
               .way_out = "larger --gpu-memory-utilization",
               .may_be_raised = true},
    .peaks = peaks,
};

}  // namespace pagedinfer
