// Products with weights in bfloat16 or int8 on the CPU, beside two bounds that are measured in the
// same run on the same threads: the peak of multiply-adds, in 8 bits for int8, and the bandwidth of
// reading memory. Weights are not in the cache: each call takes the next of many copies.
//
//   pagedinfer_matmul_bench [--threads N] [--isa NAME] [--type f32|bf16|int8] [--packed] [--json]
#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/thread_pool.h"

namespace pagedinfer {

namespace {

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// ---- the bounds

constexpr int kPeakRounds = 500'000;

// 16 independent chains of the widest fma; returns the operations done.
__attribute__((target("avx512f"))) double run_fma_512(float* sink) {
  __m512 sum[16];
  for (int i = 0; i < 16; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int n = 0; n < kPeakRounds; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  }
  for (int i = 1; i < 16; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  *sink = _mm512_cvtss_f32(sum[0]);
  return 2.0 * 16 * 16 * kPeakRounds;
}
__attribute__((target("avx2,fma"))) double run_fma_256(float* sink) {
  __m256 sum[12];
  for (int i = 0; i < 12; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int n = 0; n < kPeakRounds; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  }
  for (int i = 1; i < 12; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  *sink = _mm256_cvtss_f32(sum[0]);
  return 2.0 * 8 * 12 * kPeakRounds;
}

// The same for integers: the instruction of VNNI, or products in pairs of 16 bits and an addition.
// The sums are registers by name, so that none of them is kept in memory.
#define TIMES_12(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define VNNI(n) "vpdpbusd %1, %0, %%zmm" #n "\n\t"
#define WORDS(n) "vpmaddwd %1, %0, %%ymm12\n\tvpaddd %%ymm12, %%ymm" #n ", %%ymm" #n "\n\t"
#define SUMS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10"
__attribute__((target("avx512f,avx512vnni"))) double run_vnni(float*) {
  const __m512i a = _mm512_set1_epi32(0x03020105), b = _mm512_set1_epi32(0x01fe03ff);
  for (int n = 0; n < kPeakRounds; ++n) {
    asm volatile(TIMES_12(VNNI) : : "v"(a), "v"(b) : SUMS, "xmm11");
  }
  return 2.0 * 64 * 12 * kPeakRounds;
}
__attribute__((target("avx2"))) double run_words_256(float*) {
  const __m256i a = _mm256_set1_epi32(0x00030005), b = _mm256_set1_epi32(0x00010003);
  for (int n = 0; n < kPeakRounds; ++n) {
    asm volatile(TIMES_12(WORDS) : : "x"(a), "x"(b) : SUMS, "xmm11", "xmm12");
  }
  return 2.0 * 16 * 12 * kPeakRounds;
}

using Peak = double (*)(float* sink);
Peak peak_of(CpuIsa isa, DType weight) {
  const bool wide = isa >= CpuIsa::kAvx512;
  if (weight == DType::kI8) return wide && has_vnni() ? run_vnni : run_words_256;
  return wide ? run_fma_512 : run_fma_256;
}

// Reads a range in four streams.
__attribute__((target("avx2"))) void read_range(const char* from, size_t bytes, float* sink) {
  const size_t quarter = bytes / 4 / 64 * 64;
  __m256i sum[4] = {};
  for (size_t i = 0; i < quarter; i += 64) {
    for (int s = 0; s < 4; ++s) {
      const auto* line = reinterpret_cast<const __m256i*>(from + s * quarter + i);
      sum[s] = _mm256_or_si256(
          sum[s], _mm256_or_si256(_mm256_loadu_si256(line), _mm256_loadu_si256(line + 1)));
    }
  }
  const __m256i all =
      _mm256_or_si256(_mm256_or_si256(sum[0], sum[1]), _mm256_or_si256(sum[2], sum[3]));
  *sink = static_cast<float>(_mm256_extract_epi32(all, 0));
}

// Rates per second of all threads together. Each is the best of several rounds, which are so short
// that most are not interrupted. `flops` is the peak of the vector units, also with AMX.
struct Bounds {
  double flops, bytes;
};
Bounds measure(ThreadPool& pool, Peak peak, const std::vector<uint16_t>& memory) {
  const int threads = pool.num_threads();
  std::vector<float> sinks(static_cast<size_t>(threads) * 16);
  constexpr int kRounds = 8;
  const size_t bytes = memory.size() * sizeof(uint16_t) / kRounds / threads;
  Bounds best = {0, 0};
  for (int round = 0; round < kRounds; ++round) {
    double operations = 0;
    const double fma_time = seconds([&] {
      pool.parallel_for(threads, [&](int i, int) {
        const double done = peak(&sinks[i * 16]);
        if (i == 0) operations = done * threads;
      });
    });
    const double read_time = seconds([&] {
      pool.parallel_for(threads, [&](int i, int) {
        const auto* from = reinterpret_cast<const char*>(memory.data());
        read_range(from + (static_cast<size_t>(round) * threads + i) * bytes, bytes,
                   &sinks[i * 16]);
      });
    });
    best.flops = std::max(best.flops, operations / fma_time);
    best.bytes = std::max(best.bytes, static_cast<double>(bytes) * threads / read_time);
  }
  return best;
}

// ---- the products

struct Options {
  int threads = 1;
  CpuIsa isa = available_isas().back();
  DType compute = DType::kBF16, weight = DType::kBF16;
  bool packed = false;  // bfloat16 weights are packed
  bool json = false;
};

void run(const Options& options) {
  constexpr size_t kBytes = size_t{640} << 20;  // far beyond the last-level cache
  std::vector<uint16_t> memory(kBytes / sizeof(uint16_t));
  uint32_t state = 1;
  for (uint16_t& w : memory) {  // of either sign, 0.004 to 0.06
    state = state * 1664525u + 1013904223u;
    w = static_cast<uint16_t>((state >> 16 & 0x8000) | (0x3b80 + (state >> 18 & 0x1ff)));
  }
  ThreadPool pool(options.threads);
  const Peak peak = peak_of(options.isa, options.weight);
  const auto size_of_weight = static_cast<double>(size_of(options.weight));

  for (const auto& [k, n] : {std::pair{2048, 2048}, {2048, 8192}, {8192, 2048}, {2048, 32000}}) {
    const Bounds bounds = measure(pool, peak, memory);
    const int64_t size = int64_t{k} * n;
    const int copies = static_cast<int>(static_cast<int64_t>(memory.size()) / size);
    const auto ops = make_cpu_ops({options.isa, options.threads, options.compute, options.packed});
    std::vector<Tensor> weights;
    for (int i = 0; i < copies; ++i) {
      const Tensor host = {memory.data() + i * size, DType::kBF16, n, k, k};
      weights.push_back(ops->upload_matrix(host, options.weight));
    }
    std::vector<float> x(static_cast<size_t>(512) * k), y(static_cast<size_t>(512) * n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
    int copy = 0;
    for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
      const Tensor input = {x.data(), DType::kF32, rows, k, k};
      std::vector<double> times;
      for (int repeat = 0; repeat < 11; ++repeat) {
        copy = (copy + 1) % copies;
        const Product product = {weights[static_cast<size_t>(copy)],
                                 {y.data(), DType::kF32, rows, n, n}};
        times.push_back(seconds([&] { ops->matmul(input, {&product, 1}); }));
      }
      const double time = median(times), best = *std::min_element(times.begin(), times.end());
      const double flops = 2.0 * static_cast<double>(size) * rows / time;
      const double bytes = size_of_weight * static_cast<double>(size) / time;
      // The bound is the time of whichever takes longer.
      const double bound = std::max(2.0 * static_cast<double>(size) * rows / bounds.flops,
                                    size_of_weight * static_cast<double>(size) / bounds.bytes);
      if (options.json) {
        fmt::print(
            "{{\"isa\":\"{}\",\"type\":\"{}\",\"packed\":{},\"threads\":{},\"k\":{},\"n\":{},"
            "\"rows\":{},\"ms\":{"
            ":.4f},"
            "\"best_ms\":{:.4f},\"gflops\":{:.2f},\"gbytes\":{:.2f},\"peak_gflops\":{:.1f},"
            "\"peak_gbytes\":{:.2f},\"of_bound\":{:.3f},\"best_of_bound\":{:.3f}}}\n",
            name_of(options.isa), name_of(options.weight), options.packed, options.threads, k, n,
            rows, time * 1e3, best * 1e3, flops / 1e9, bytes / 1e9, bounds.flops / 1e9,
            bounds.bytes / 1e9, bound / time, bound / best);
      } else {
        fmt::print(
            "{:6} {} threads  {:5} x {:5}  {:3} rows  {:8.3f} ms (best {:8.3f})  {:7.1f} GFLOP/s "
            "= {:.2f} of peak  {:5.1f} GB/s = {:.2f} of memory  {:.2f} of the bound\n",
            name_of(options.isa), options.threads, k, n, rows, time * 1e3, best * 1e3, flops / 1e9,
            flops / bounds.flops, bytes / 1e9, bytes / bounds.bytes, bound / time);
      }
      std::fflush(stdout);
    }
  }
}

int usage() {
  fmt::print(stderr,
             "usage: pagedinfer_matmul_bench [--threads N] [--isa portable|avx2|avx512|amx] "
             "[--type f32|bf16|int8] [--packed] [--json]\n");
  return 2;
}

}  // namespace

}  // namespace pagedinfer

int main(int argc, char** argv) {
  using namespace pagedinfer;
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json" || flag == "--packed") {
      (flag == "--json" ? options.json : options.packed) = true;
      continue;
    }
    if (++i == argc) return usage();
    const std::string_view value = argv[i];
    if (flag == "--threads") {
      options.threads = std::max(1, std::atoi(argv[i]));
    } else if (flag == "--type") {
      options.compute = value == "f32" ? DType::kF32 : DType::kBF16;
      options.weight = value == "int8" ? DType::kI8 : DType::kBF16;
    } else if (flag == "--isa") {
      bool found = false;
      for (const CpuIsa isa : available_isas()) {
        if (value == name_of(isa)) options.isa = isa, found = true;
      }
      if (!found) return usage();
    } else {
      return usage();
    }
  }
  if (options.packed && !can_pack(options.isa, options.compute)) return usage();
  run(options);
}
