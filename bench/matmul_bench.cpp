// Products with weights in bfloat16, float16, int8 or codes of 4 bits on the CPU, beside two bounds
// that are measured in the same run on the same threads: bare multiplications of that kind, and
// reading memory. Weights are not in the cache: each call takes the next of many copies.
//
//   pagedinfer_matmul_bench [--threads N] [--isa NAME] [--type f32|f16|bf16|int8|int4] [--packed]
//   [--group COLUMNS] [--json]
// A type may also be one of GGUF: Q4_0, Q5_0, Q8_0, IQ4_NL, Q4_K, Q5_K, Q6_K or IQ4_XS.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/cpu_peaks.h"

namespace pagedinfer {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds(const std::function<void()>& work) {
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Options {
  int threads = 1;
  CpuIsa isa = available_isas().back();
  DType compute = DType::kBF16, weight = DType::kBF16;
  std::optional<CodeSource> blocks;  // of GGUF: what they are, without rows and columns
  bool packed = false;               // bfloat16 weights are packed
  int64_t group = 128;               // of columns of int4 that share a scale
  bool json = false;
};

// Types of GGUF.
std::optional<CodeSource> find_blocks(std::string_view name) {
  using enum CodeValues;
  const auto blocks = [](int64_t group, CodeValues values, int zero, int64_t sub_group,
                         bool has_minima) {
    return CodeSource{.group = group,
                      .values = values,
                      .scales = CodeScales::kF16,
                      .zero = zero,
                      .sub_group = sub_group,
                      .has_minima = has_minima};
  };
  if (name == "Q4_0") return blocks(32, kUniform, 8, 0, false);
  if (name == "Q5_0") return blocks(32, kUniform5, 16, 0, false);
  if (name == "Q8_0") return blocks(32, kBytes, 0, 0, false);
  if (name == "IQ4_NL") return blocks(32, kTable, 0, 0, false);
  if (name == "Q4_K") return blocks(256, kUniform, 0, 32, true);
  if (name == "Q5_K") return blocks(256, kUniform5, 0, 32, true);
  if (name == "Q6_K") return blocks(256, kUniform6, 32, 16, false);
  if (name == "IQ4_XS") return blocks(256, kTable, 0, 32, false);
  return std::nullopt;
}

// Any codes and scales: the time does not depend on them.
CodeSource filled(CodeSource blocks, int64_t rows, int64_t cols) {
  blocks.rows = rows, blocks.cols = cols;
  blocks.read = [cols, scales_of_row = blocks.scales_of_row(),
                 bytes_of_row = blocks.bytes_of_row()](int64_t first, int64_t count, uint8_t* codes,
                                                       float* scales, uint8_t* bytes) {
    for (int64_t i = 0; i < count * cols; ++i) {
      codes[i] = static_cast<uint8_t>((first + i) * 7 % 16);
    }
    std::fill_n(scales, count * scales_of_row, 0x1p-10f);
    std::fill_n(bytes, count * bytes_of_row, uint8_t{33});
  };
  return blocks;
}

void run(const Options& options) {
  constexpr size_t kBytes = size_t{640} << 20;  // far beyond the last-level cache
  std::vector<uint16_t> memory(kBytes / sizeof(uint16_t));
  uint32_t state = 1;
  for (uint16_t& w : memory) {  // of either sign, 0.004 to 0.06
    state = state * 1664525u + 1013904223u;
    w = static_cast<uint16_t>((state >> 16 & 0x8000) | (0x3b80 + (state >> 18 & 0x1ff)));
  }
  const bool is_int8 = options.weight == DType::kI8 || options.weight == DType::kI4;

  for (const auto& [k, n] : {std::pair{2048, 2048}, {2048, 8192}, {8192, 2048}, {2048, 32000}}) {
    const DevicePeaks peaks =
        measure_cpu_peaks({options.isa, options.threads, options.compute},
                          is_int8 ? Quantization::kInt8 : Quantization::kNone, now);
    const double peak_flops = is_int8 ? peaks.int8_flops_per_second : peaks.flops_per_second;
    const double peak_bytes = peaks.bytes_per_second;
    const int64_t size = int64_t{k} * n;
    const int copies = static_cast<int>(static_cast<int64_t>(memory.size()) / size);
    const auto ops = make_cpu_ops({options.isa, options.threads, options.compute, options.packed});
    std::vector<Tensor> weights;
    double weight_bytes = static_cast<double>(size);
    for (int i = 0; i < copies; ++i) {
      const DType stored = options.weight == DType::kF16 ? DType::kF16 : DType::kBF16;
      const Tensor host = {memory.data() + i * size, stored, n, k, k};
      if (options.weight == DType::kI4) {
        const CodeSource codes = options.blocks
                                     ? filled(*options.blocks, n, k)
                                     : rounded_to_codes(stored_rows(host), options.group);
        weights.push_back(ops->memory().upload_codes(codes));
        weight_bytes = static_cast<double>(ops->memory().codes_bytes(codes));
      } else {
        weights.push_back(ops->memory().upload_matrix(host, options.weight));
        weight_bytes = static_cast<double>(size * size_of(options.weight));
      }
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
        times.push_back(seconds([&] { ops->arithmetic().matmul(input, {&product, 1}); }));
      }
      const double time = median(times), best = *std::min_element(times.begin(), times.end());
      const double flops = 2.0 * static_cast<double>(size) * rows / time;
      const double bytes = weight_bytes / time;
      // The bound is the time of whichever takes longer.
      const double bound =
          std::max(2.0 * static_cast<double>(size) * rows / peak_flops, weight_bytes / peak_bytes);
      if (options.json) {
        fmt::print(
            "{{\"isa\":\"{}\",\"type\":\"{}\",\"packed\":{},\"threads\":{},\"k\":{},\"n\":{},"
            "\"rows\":{},\"ms\":{"
            ":.4f},"
            "\"best_ms\":{:.4f},\"gflops\":{:.2f},\"gbytes\":{:.2f},\"peak_gflops\":{:.1f},"
            "\"peak_gbytes\":{:.2f},\"of_bound\":{:.3f},\"best_of_bound\":{:.3f}}}\n",
            name_of(options.isa), name_of(options.weight), options.packed, options.threads, k, n,
            rows, time * 1e3, best * 1e3, flops / 1e9, bytes / 1e9, peak_flops / 1e9,
            peak_bytes / 1e9, bound / time, bound / best);
      } else {
        fmt::print(
            "{:6} {} threads  {:5} x {:5}  {:3} rows  {:8.3f} ms (best {:8.3f})  {:7.1f} GFLOP/s "
            "= {:.2f} of peak  {:5.1f} GB/s = {:.2f} of memory  {:.2f} of the bound\n",
            name_of(options.isa), options.threads, k, n, rows, time * 1e3, best * 1e3, flops / 1e9,
            flops / peak_flops, bytes / 1e9, bytes / peak_bytes, bound / time);
      }
      std::fflush(stdout);
    }
  }
}

int usage() {
  fmt::print(stderr,
             "usage: pagedinfer_matmul_bench [--threads N] [--isa portable|avx2|avx512|amx] "
             "[--type f32|f16|bf16|int8|int4|Q4_0|Q5_0|Q8_0|IQ4_NL|Q4_K|Q5_K|Q6_K|IQ4_XS] "
             "[--packed] [--group COLUMNS] [--json]\n");
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
      options.compute = value == "f32" || value == "f16" ? DType::kF32 : DType::kBF16;
      options.blocks = find_blocks(value);
      options.weight = options.blocks    ? DType::kI4
                       : value == "int4" ? DType::kI4
                       : value == "int8" ? DType::kI8
                       : value == "f16"  ? DType::kF16
                                         : DType::kBF16;
    } else if (flag == "--group") {
      options.group = std::atoi(argv[i]);
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
  if (options.packed && !can_pack(options.compute)) return usage();
  run(options);
}
