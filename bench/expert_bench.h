// Benchmarks of a block of experts.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "gpu_bench.h"
#include "kernels/expert_choice.h"
#include "kernels/expert_products.h"

namespace pagedinfer {

struct ExpertShape {
  const char* model;
  int hidden, experts, per_row, width;
};
inline constexpr ExpertShape kExpertShapes[] = {{"qwen3-30b-a3b", 2048, 128, 8, 768},
                                                {"mixtral-8x7b", 4096, 8, 2, 14336}};
inline constexpr ExpertShape kSmallExpertShapes[] = {{"small", 64, 6, 2, 40}};

inline void experts_of(Bench& bench, const ExpertShape& s, int rows) {
  const std::string shape = fmt::format("{} rows={}", s.model, rows);
  const int64_t choices = int64_t{rows} * s.per_row;
  const auto x = [&] {
    return kernels::Matrix{bench.input(int64_t{rows} * s.hidden * 2), s.hidden};
  };
  bench.forget_lists();
  // A row's experts follow one another, from a random one on; sorted by expert.
  std::vector<std::vector<int32_t>> of_expert(static_cast<size_t>(s.experts));
  uint32_t random = 1;
  for (int row = 0; row < rows; ++row) {
    random = random * 1664525 + 1013904223;
    for (int c = 0; c < s.per_row; ++c) {
      const auto expert = ((random >> 8) + static_cast<uint32_t>(c)) % of_expert.size();
      of_expert[expert].push_back(row * s.per_row + c);
    }
  }
  std::vector<int32_t> numbers, starts = {0}, chosen(static_cast<size_t>(choices));
  for (size_t e = 0; e < of_expert.size(); ++e) {
    for (const int32_t number : of_expert[e]) {
      numbers.push_back(number);
      chosen[static_cast<size_t>(number)] = static_cast<int32_t>(e);
    }
    starts.push_back(static_cast<int32_t>(numbers.size()));
  }
  const int32_t *numbers_there = bench.upload(numbers), *starts_there = bench.upload(starts),
                *chosen_there = bench.upload(chosen);
  const float* const weights =
      bench.upload(std::vector<float>(static_cast<size_t>(choices), 0.125f));

  const double router_bytes = 4.0 * s.experts * s.hidden, x_bytes = 2.0 * rows * s.hidden;
  bench.measure("expert_choice", shape, {.bytes = router_bytes + x_bytes}, [&](int) {
    kernels::launch_route({.type = Type::kBF16,
                           .x = x(),
                           .router = {bench.input(int64_t{4} * s.experts * s.hidden), s.hidden},
                           .num_rows = rows,
                           .cols = s.hidden,
                           .experts = s.experts,
                           .per_row = s.per_row,
                           .normalizes_chosen = true,
                           .has_shared = false,
                           .chosen = bench.output<int32_t>(choices * 4),
                           .weights = bench.output<float>(choices * 4)},
                          bench.stream());
  });
  bench.measure("expert_group", shape, {.bytes = 8.0 * static_cast<double>(choices)}, [&](int) {
    kernels::launch_group_by_expert({.chosen = chosen_there,
                                     .numbers = bench.output<int32_t>(choices * 4),
                                     .starts = bench.output<int32_t>((s.experts + 1) * 4),
                                     .num_choices = static_cast<int>(choices),
                                     .experts = s.experts},
                                    bench.stream());
  });
  const int64_t matrix_bytes = int64_t{2} * s.width * s.hidden;
  const auto used =
      std::ranges::count_if(of_expert, [](const auto& some) { return !some.empty(); });
  const double multiplied = 6.0 * s.width * s.hidden;
  bench.measure("expert_products", shape,
                {.bytes = 3.0 * static_cast<double>(used * matrix_bytes) + 2 * x_bytes,
                 .flops = static_cast<double>(choices) * multiplied},
                [&](int) {
                  std::vector<kernels::ExpertMatrices> experts;
                  for (int e = 0; e < s.experts; ++e) {
                    experts.push_back({.gate = bench.input(matrix_bytes),
                                       .up = bench.input(matrix_bytes),
                                       .down = bench.input(matrix_bytes),
                                       .width = s.width});
                  }
                  const kernels::ExpertProductsArgs args = {
                      .type = Type::kBF16,
                      .is_int8 = false,
                      .x = x(),
                      .num_rows = rows,
                      .cols = s.hidden,
                      .choices = s.per_row,
                      .max_width = s.width,
                      .numbers = numbers_there,
                      .starts = starts_there,
                      .weights = weights,
                      .gate = kernels::ExpertGate::kSilu,
                      .gated = bench.output(choices * s.width * 2),
                      .outputs = bench.output<float>(choices * s.hidden * 4),
                      .out = {bench.output(int64_t{rows} * s.hidden * 2), s.hidden}};
                  kernels::launch_expert_gates(args, experts, bench.stream());
                  kernels::launch_expert_outputs(args, experts, bench.stream());
                  kernels::launch_expert_sum(args, bench.stream());
                });
}

}  // namespace pagedinfer
