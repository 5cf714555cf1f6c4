#include <fmt/format.h>

#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/cpu_peaks.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {
namespace {

std::string no_problem() { return ""; }

bool is_present() { return true; }

CpuIsa choose_isa(std::optional<CpuIsa> asked) {
  const std::vector<CpuIsa> available = available_isas();
  std::string found;
  for (CpuIsa isa : available) {
    if (asked == isa) return isa;
    found += fmt::format(" {}", name_of(isa));
  }
  if (!asked) return available.back();
  throw Error(fmt::format("--cpu-isa {}: this processor has{}", name_of(*asked), found));
}

constexpr DType kCacheTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI8};

// float16 is computed as float32; the cache stays float16.
DeviceOptions resolve(const DeviceOptions& asked) {
  DeviceOptions options = asked;
  if (asked.compute == DType::kF16) options.compute = DType::kF32;
  options.cpu_isa = choose_isa(asked.cpu_isa);
  options.deterministic = true;
  options.pack_weights = asked.pack_weights && can_pack(options.compute);
  return options;
}

CpuOptions cpu_options(const DeviceOptions& options) {
  return {.isa = options.cpu_isa.value(),
          .num_threads = options.num_threads,
          .compute = options.compute,
          .packs_weights = options.pack_weights,
          .cpus = options.cpus,
          .attention = options.attention};
}

std::unique_ptr<Ops> make(const DeviceOptions& options) {
  return make_cpu_ops(cpu_options(options));
}

DevicePeaks peaks(const DeviceOptions& options, Quantization quantize,
                  const std::function<double()>& clock) {
  return measure_cpu_peaks(cpu_options(options), quantize, clock);
}

}  // namespace

constinit const BackendInfo kCpuInfo = {
    .name = "cpu",
    .device = "the CPU",
    .problem = no_problem,
    .is_present = is_present,
    .resolve = resolve,
    .make = make,
    .cache_types = kCacheTypes,
    .always_deterministic = true,
    .warms_up = false,
    .overlaps = false,
    .max_head_dim = kMaxHeadDim,
    .keeps_codes = true,
    .usual_step_tokens = 2048,
    // The rest is for the page cache and other programs.
    .memory = {.usual_share = 0.5,
               .max_share = 0.9,
               .name = "memory",
               .place = "",
               .limit = " and nine tenths of it may be used",
               .way_out = "given --kv-memory"},
    .peaks = peaks,
};

}  // namespace pagedinfer
