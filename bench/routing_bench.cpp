// A block of experts on the CPU, with the shapes of Qwen3-30B-A3B, beside its bound: reading the
// experts that a step touches, or multiplying, whichever takes longer, as measured in the same run
// on the same threads. Tokens choose experts evenly, or by Zipf's law: the expert of rank r with a
// chance in proportion to 1 / r.
//
//   pagedinfer_routing_bench [--threads N] [--isa NAME] [--type bf16|int8|int4]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/cpu_peaks.h"
#include "ops/peaks.h"

namespace pagedinfer {
namespace {

constexpr int kHidden = 2048, kExperts = 128, kPerToken = 8, kWidth = 768, kLayers = 2;

enum class Law : bool { kEven, kZipf };

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Options {
  int threads = 1;
  CpuIsa isa = available_isas().back();
  DType weight = DType::kBF16;
};

// Which experts each token of a step has.
class Choices {
 public:
  Choices(Law law, int tokens, std::mt19937& random)
      : chosen_(static_cast<size_t>(tokens) * kPerToken), weights_(chosen_.size(), 0.125f) {
    std::exponential_distribution<double> wait;
    for (int token = 0; token < tokens; ++token) {
      // The first to come of which each comes after a while that its chance decides.
      std::vector<std::pair<double, int>> arrivals;
      for (int e = 0; e < kExperts; ++e) {
        arrivals.emplace_back(wait(random) * (law == Law::kZipf ? 1 + e : 1), e);
      }
      std::partial_sort(arrivals.begin(), arrivals.begin() + kPerToken, arrivals.end());
      int32_t* const mine = &chosen_[static_cast<size_t>(token) * kPerToken];
      // Neighbours in rank are no neighbours in memory.
      for (int i = 0; i < kPerToken; ++i) mine[i] = arrivals[i].second * 37 % kExperts;
      std::sort(mine, mine + kPerToken);
    }
  }

  int64_t tokens() const { return std::ssize(chosen_) / kPerToken; }
  ExpertChoice choice() {
    return {{chosen_.data(), DType::kI32, tokens(), kPerToken, kPerToken},
            {weights_.data(), DType::kF32, tokens(), kPerToken, kPerToken}};
  }
  int touched() const {
    std::vector<bool> has(kExperts);
    for (const int32_t expert : chosen_) has[static_cast<size_t>(expert)] = true;
    return static_cast<int>(std::ranges::count(has, true));
  }
  int max_of_one() const {
    std::vector<int> counts(kExperts);
    for (const int32_t expert : chosen_) ++counts[static_cast<size_t>(expert)];
    return *std::ranges::max_element(counts);
  }

 private:
  std::vector<int32_t> chosen_;
  std::vector<float> weights_;
};

class RoutingBench {
 public:
  explicit RoutingBench(const Options& options)
      : options_(options),
        ops_(make_cpu_ops({.isa = options.isa,
                           .num_threads = options.threads,
                           .packs_weights = options.weight == DType::kBF16})),
        numbers_(random_numbers(DType::kBF16, int64_t{kHidden} * kWidth)) {
    for (std::vector<Expert>& layer : layers_) {
      for (int e = 0; e < kExperts; ++e) {
        layer.push_back({.gate = upload(kWidth, kHidden),
                         .up = upload(kWidth, kHidden),
                         .down = upload(kHidden, kWidth)});
      }
    }
  }

  // Steps of both laws in turn, because a machine's speed drifts.
  void measure(int tokens) {
    const bool is_bf16 = options_.weight == DType::kBF16;
    const DevicePeaks peaks =
        measure_cpu_peaks({.isa = options_.isa, .num_threads = options_.threads},
                          is_bf16 ? Quantization::kNone : Quantization::kInt8, now);
    const double peak_flops = is_bf16 ? peaks.flops_per_second : peaks.int8_flops_per_second;
    std::mt19937 random(1);
    std::vector<float> x(static_cast<size_t>(tokens) * kHidden), y(x.size());
    for (float& number : x) number = std::normal_distribution<float>()(random);
    constexpr int kTimes = 31;
    Measured measured[2];
    for (int i = 0; i < kTimes; ++i) {
      for (const Law law : {Law::kEven, Law::kZipf}) {
        Choices choices(law, tokens, random);
        const double time = step(choices, layers_[static_cast<size_t>(i) % kLayers], x, y);
        const double flops = 6.0 * kHidden * kWidth * tokens * kPerToken;
        const double bytes = static_cast<double>(expert_bytes_) * choices.touched();
        Measured& of_law = measured[law == Law::kZipf ? 1 : 0];
        of_law.shares.push_back(std::max(flops / peak_flops, bytes / peaks.bytes_per_second) /
                                time);
        of_law.times.push_back(time);
        of_law.touched += choices.touched();
        of_law.max_of_one += choices.max_of_one();
      }
    }
    for (const char* const law : {"even", "zipf"}) {
      Measured& m = measured[law[0] == 'z' ? 1 : 0];
      std::ranges::sort(m.shares);
      std::ranges::sort(m.times);
      fmt::print(
          "{{\"isa\":\"{}\",\"type\":\"{}\",\"threads\":{},\"law\":\"{}\",\"tokens\":{},"
          "\"touched\":{:.1f},\"max_of_one\":{:.1f},\"ms\":{:.3f},\"of_bound\":{:.3f},"
          "\"best_of_bound\":{:.3f},\"peak_gflops\":{:.0f},\"peak_gbytes\":{:.2f}}}\n",
          name_of(options_.isa), name_of(options_.weight), options_.threads, law, tokens,
          m.touched / kTimes, m.max_of_one / kTimes, m.times[kTimes / 2] * 1e3,
          m.shares[kTimes / 2], m.shares.back(), peak_flops / 1e9, peaks.bytes_per_second / 1e9);
    }
    std::fflush(stdout);
  }

 private:
  struct Measured {
    std::vector<double> shares, times;
    double touched = 0, max_of_one = 0;
  };

  // The seconds of a step.
  double step(Choices& choices, const std::vector<Expert>& experts, std::vector<float>& x,
              std::vector<float>& y) {
    const int64_t tokens = choices.tokens();
    std::vector<int32_t> numbers(static_cast<size_t>(tokens) * kPerToken), starts(kExperts + 1);
    const auto row = [](std::vector<int32_t>& list) {
      return Tensor{list.data(), DType::kI32, 1, std::ssize(list), std::ssize(list)};
    };
    const auto matrix = [&](std::vector<float>& list) {
      return Tensor{list.data(), DType::kF32, tokens, kHidden, kHidden};
    };
    const ExpertGroups groups = {row(numbers), row(starts)};
    Arithmetic& arithmetic = ops_->arithmetic();
    arithmetic.group_by_expert(choices.choice(), groups);
    // Wakes the threads, as the products of attention do in a model.
    std::vector<float> woken(static_cast<size_t>(tokens) * kWidth);
    const Product product = {layers_[0][0].gate,
                             {woken.data(), DType::kF32, tokens, kWidth, kWidth}};
    arithmetic.matmul(matrix(x), {&product, 1});
    const double start = now();
    arithmetic.multiply_experts(matrix(x), choices.choice(), groups, experts, Activation::kSilu, {},
                                matrix(y));
    return now() - start;
  }

  Tensor upload(int rows, int cols) {
    DeviceMemory& memory = ops_->memory();
    const Tensor host = {numbers_.data(), DType::kBF16, rows, cols, cols};
    const bool is_first = layers_[0].empty();
    if (options_.weight != DType::kI4) {
      if (is_first) expert_bytes_ += memory.matrix_bytes(host, options_.weight);
      return memory.upload_matrix(host, options_.weight);
    }
    const CodeSource codes = rounded_to_codes(stored_rows(host), kGroup);
    if (is_first) expert_bytes_ += memory.codes_bytes(codes);
    return memory.upload_codes(codes);
  }

  static constexpr int64_t kGroup = 128;  // of columns of int4 that share a scale

  const Options options_;
  const std::unique_ptr<Ops> ops_;
  std::vector<char> numbers_;
  std::vector<Expert> layers_[kLayers];  // more than caches hold
  int64_t expert_bytes_ = 0;
};

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  using namespace pagedinfer;
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i], value = argv[i + 1];
    if (flag == "--threads") options.threads = std::max(1, std::atoi(argv[i + 1]));
    if (flag == "--type") {
      options.weight = value == "int8" ? DType::kI8 : value == "int4" ? DType::kI4 : DType::kBF16;
    }
    for (const CpuIsa isa : available_isas()) {
      if (flag == "--isa" && value == name_of(isa)) options.isa = isa;
    }
  }
  RoutingBench bench(options);
  for (const int tokens : {1, 8, 64, 512}) bench.measure(tokens);
}
