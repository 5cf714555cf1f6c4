#include "load/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"

namespace pagedinfer {

std::span<const BackendRow> backends() {
  static constexpr BackendRow kRows[] = {{Config::Device::kCuda, kCudaInfo},
                                         {Config::Device::kCpu, kCpuInfo}};
  return kRows;
}

const BackendRow& backend_of(Config::Device device) {
  const auto found = std::ranges::find(backends(), device, &BackendRow::device);
  CHECK(found != backends().end());
  return *found;
}

BackendChoice choose_backend(Config::Device device, std::span<const BackendRow> rows) {
  if (device != Config::Device::kAuto) return {backend_of(device)};
  std::string note;
  for (const BackendRow& row : rows.first(rows.size() - 1)) {
    const std::string problem = row.info.problem();
    if (problem.empty()) return {row, note};
    if (note.empty() && row.info.is_present()) {
      note = fmt::format("{} is not used: {}", row.info.device, problem);
    }
  }
  return {rows.back(), note};
}

void check_sizes(const BackendInfo& backend, const ModelSpec& spec) {
  const auto check = [&](const std::string& what, int size, int max) {
    if (max == 0 || size <= max) return;
    throw Error(fmt::format("config.json: {}: {} computes at most {}", what, backend.device, max));
  };
  check(fmt::format("heads of {} channels", spec.head_dim), spec.head_dim, backend.max_head_dim);
  check(fmt::format("a vocabulary of {} tokens", spec.vocab), spec.vocab, backend.max_vocab);
  check(fmt::format("{} experts", spec.experts.count), spec.experts.count, backend.max_experts);
}

}  // namespace pagedinfer
