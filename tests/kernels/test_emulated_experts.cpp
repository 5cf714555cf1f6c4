// The source of the GPU's experts, run on the CPU, against Arithmetic's plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/expert_choice.h"
#include "ops/arithmetic.h"
#include "tests/emulated_cuda/device_support.h"
#include "tests/support/ops_support.h"

namespace pagedinfer::kernels {
namespace {

struct Sizes {
  int rows, cols, experts, per_row, width, shared_width = 0;  // 0: no shared expert

  int choices() const { return per_row + (shared_width > 0); }
  int all_experts() const { return experts + (shared_width > 0); }
  int width_of(int expert) const { return expert < experts ? width : shared_width; }
};

Tensor floats(std::vector<float>& numbers, int64_t rows, int64_t cols) {
  return {numbers.data(), DType::kF32, rows, cols, cols};
}
Tensor ints(std::vector<int32_t>& numbers, int64_t rows, int64_t cols) {
  return {numbers.data(), DType::kI32, rows, cols, cols};
}
size_t product(int a, int b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

// What the operations write.
struct Chosen {
  std::vector<int32_t> experts, numbers, starts;
  std::vector<float> weights;

  explicit Chosen(const Sizes& s)
      : experts(product(s.rows, s.choices()), -1),
        numbers(experts.size(), -1),
        starts(static_cast<size_t>(s.all_experts()) + 1),
        weights(experts.size(), -1.0f) {}
  ExpertChoice choice(const Sizes& s) {
    return {ints(experts, s.rows, s.choices()), floats(weights, s.rows, s.choices())};
  }
  ExpertGroups groups() {
    return {ints(numbers, 1, std::ssize(numbers)), ints(starts, 1, std::ssize(starts))};
  }
};

// The numbers of a router. Some experts have equal rows, so that logits tie.
struct RouterNumbers {
  std::vector<float> weight, bias, shared_gate;
  bool normalizes_chosen;

  RouterNumbers(Random& random, const Sizes& s, bool has_bias, bool gates_shared)
      : weight(random.normals(product(s.experts, s.cols),
                              1.5f / std::sqrt(static_cast<float>(s.cols)))),
        normalizes_chosen(random.below(2)) {
    for (int i = 0; i < s.experts / 3; ++i) {
      std::copy_n(weight.begin() + std::ptrdiff_t{random.below(s.experts)} * s.cols, s.cols,
                  weight.begin() + std::ptrdiff_t{random.below(s.experts)} * s.cols);
    }
    if (has_bias) bias = random.normals(static_cast<size_t>(s.experts));
    if (gates_shared) shared_gate = random.normals(static_cast<size_t>(s.cols), 0.1f);
  }
  Router router(const Sizes& s) {
    return {.weight = floats(weight, s.experts, s.cols),
            .bias = bias.empty() ? Tensor() : floats(bias, 1, s.experts),
            .per_row = s.per_row,
            .normalizes_chosen = normalizes_chosen,
            .has_shared = s.shared_width > 0,
            .shared_gate = shared_gate.empty() ? Tensor() : floats(shared_gate, 1, s.cols)};
  }
};

void choose(Type type, Matrix x, RouterNumbers& numbers, const Sizes& s, Chosen& to) {
  launch_route({.type = type,
                .x = x,
                .router = {numbers.weight.data(), s.cols},
                .bias = numbers.bias.empty() ? nullptr : numbers.bias.data(),
                .shared_gate = numbers.shared_gate.empty() ? nullptr : numbers.shared_gate.data(),
                .num_rows = s.rows,
                .cols = s.cols,
                .experts = s.experts,
                .per_row = s.per_row,
                .normalizes_chosen = numbers.normalizes_chosen,
                .has_shared = s.shared_width > 0,
                .chosen = to.experts.data(),
                .weights = to.weights.data()},
               nullptr);
  launch_group_by_expert({.chosen = to.experts.data(),
                          .numbers = to.numbers.data(),
                          .starts = to.starts.data(),
                          .num_choices = static_cast<int>(std::ssize(to.experts)),
                          .experts = s.all_experts()},
                         nullptr);
}

// A row of x with a number that is not finite, or the same row twice: all logits NaN, or ties.
template <class T>
void check_choice(Random& random, const Sizes& s) {
  INFO(s.rows << " rows of " << s.cols << ", " << s.per_row << " of " << s.experts << " experts");
  RouterNumbers numbers(random, s, random.below(2), s.shared_width > 0 && random.below(2));
  GuardedMatrix<T> x(random, s.rows, s.cols, random.below(2));
  x.fill(random);
  if (random.below(4) == 0) x.at(0, 0) = from_float<T>(INFINITY);
  std::vector<float> values;
  for (int i = 0; i < s.rows; ++i) {
    for (int j = 0; j < s.cols; ++j) values.push_back(x(i, j));
  }
  Chosen found(s), expected(s);
  choose(kTypeOf<T>, x.matrix(), numbers, s, found);
  const auto cpu = make_cpu_ops({});
  cpu->Arithmetic::route(floats(values, s.rows, s.cols), numbers.router(s), expected.choice(s));
  cpu->Arithmetic::group_by_expert(expected.choice(s), expected.groups());
  CHECK(found.experts == expected.experts);
  CHECK(count_differences(found.weights, expected.weights) == 0);
  CHECK(found.numbers == expected.numbers);
  CHECK(found.starts == expected.starts);
}

}  // namespace

TEST_CASE("the GPU chooses experts with the CPU's bits") {
  Random random{1};
  for (int round = 0; round < 30; ++round) {
    const int experts = random.between(1, random.below(4) ? 20 : 300);
    const Sizes s = {.rows = random.between(1, round % 5 ? 6 : 300),
                     .cols = random.between(1, 90),
                     .experts = experts,
                     .per_row = random.between(1, std::min(experts, 9)),
                     .width = 1,
                     .shared_width = random.below(2)};
    check_choice<float>(random, s);
    check_choice<__nv_bfloat16>(random, s);
    check_choice<__half>(random, s);
  }
}

}  // namespace pagedinfer::kernels
