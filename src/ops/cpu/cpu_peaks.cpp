#include "ops/cpu/cpu_peaks.h"

#include <cstring>
#include <vector>

#include "ops/cpu/cpu_matmul.h"
#include "ops/cpu/host_memory.h"
#include "ops/cpu/thread_pool.h"
#include "ops/peaks.h"

namespace pagedinfer {
namespace {

constexpr int kRounds = 100'000;             // two milliseconds or less
constexpr int64_t kRead = int64_t{1} << 28;  // bytes, far more than the caches hold

}  // namespace

DevicePeaks measure_cpu_peaks(const CpuOptions& options, Quantization quantize,
                              const std::function<double()>& clock) {
  ThreadPool pool(options.num_threads, options.cpus);
  const int threads = pool.num_threads();
  ClockTimer timer(clock);
  const auto rate = [&](DType weight) {
    const ProductKernels& kernels = product_of(options, weight, Layout::kRows);
    const std::vector<char> numbers = random_numbers(weight, kBareBytes / size_of(weight));
    double operations = 0;
    const double seconds = fastest(timer, [&] {
      pool.parallel_for(threads, [&](int task, int) {
        const double done = kernels.bare(numbers.data(), kRounds);
        if (task == 0) operations = threads * done;
      });
    });
    return operations / seconds;
  };
  HostMemory memory = HostMemory::of_large_pages(kRead, "measuring the speed of reading");
  const int64_t part = kRead / threads;
  // Until memory is written, all its pages are one page, which a cache holds.
  pool.parallel_for(threads, [&](int i, int) {
    std::memset(memory.data() + i * part, 1, static_cast<size_t>(part));
  });
  const double seconds = fastest(timer, [&] {
    pool.parallel_for(
        threads, [&](int i, int) { kernels_of(options.isa).read(memory.data() + i * part, part); });
  });
  DevicePeaks peaks = {.bytes_per_second = static_cast<double>(part * threads) / seconds,
                       .flops_per_second = rate(options.compute)};
  if (multiplies_int8(quantize)) peaks.int8_flops_per_second = rate(DType::kI8);
  return peaks;
}

}  // namespace pagedinfer
