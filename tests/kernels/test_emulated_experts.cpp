// The source of the GPU's experts, run on the CPU, against Arithmetic's plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "kernels/expert_choice.h"
#include "kernels/expert_products.h"
#include "kernels/int8_rows.h"
#include "ops/arithmetic.h"
#include "tests/emulated_cuda/device_support.h"
#include "tests/kernels/int8_weights.h"

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
  cpu->arithmetic().Arithmetic::route(floats(values, s.rows, s.cols), numbers.router(s),
                                      expected.choice(s));
  cpu->arithmetic().Arithmetic::group_by_expert(expected.choice(s), expected.groups());
  CHECK(found.experts == expected.experts);
  CHECK(count_differences(found.weights, expected.weights) == 0);
  CHECK(found.numbers == expected.numbers);
  CHECK(found.starts == expected.starts);
}

// The matrices of all experts, as the kernels and as the CPU read them.
template <class T>
class ExpertNumbers {
 public:
  ExpertNumbers(Random& random, const Sizes& s, bool int8, bool biases, Ops& cpu) {
    for (int e = 0; e < s.all_experts(); ++e) {
      const int width = s.width_of(e);
      ExpertMatrices own = {.width = width};
      Expert expert;
      const auto matrix = [&](int rows, int cols, const void*& to, Tensor& on_cpu) {
        std::vector<float>& numbers = floats_.emplace_back(
            random.normals(product(rows, cols), 1.5f / std::sqrt(static_cast<float>(cols))));
        if (int8) {
          to = int8_.emplace_back(std::make_unique<Int8Weights>(numbers, cols))->data();
          on_cpu = cpu.memory().upload_matrix(floats(numbers, rows, cols), DType::kI8);
        } else {
          to = stored(numbers);
          on_cpu = floats(numbers, rows, cols);
        }
      };
      matrix(width, s.cols, own.gate, expert.gate);
      matrix(width, s.cols, own.up, expert.up);
      matrix(s.cols, width, own.down, expert.down);
      const auto bias = [&](int size, const void*& to, Tensor& on_cpu) {
        if (!biases) return;
        std::vector<float>& numbers =
            floats_.emplace_back(random.normals(static_cast<size_t>(size), 0.3f));
        to = stored(numbers);
        on_cpu = floats(numbers, 1, size);
      };
      bias(width, own.gate_bias, expert.gate_bias);
      bias(width, own.up_bias, expert.up_bias);
      bias(s.cols, own.down_bias, expert.down_bias);
      matrices.push_back(own);
      experts.push_back(expert);
    }
  }

  std::vector<ExpertMatrices> matrices = {};
  std::vector<Expert> experts = {};

 private:
  // Rounds the numbers to T.
  const void* stored(std::vector<float>& numbers) {
    GuardedBytes& bytes =
        *stored_.emplace_back(std::make_unique<GuardedBytes>(numbers.size() * sizeof(T)));
    for (size_t i = 0; i < numbers.size(); ++i) {
      reinterpret_cast<T*>(bytes.data())[i] = from_float<T>(numbers[i]);
      numbers[i] = rounded<T>(numbers[i]);
    }
    return bytes.data();
  }

  std::deque<std::vector<float>> floats_ = {};
  std::vector<std::unique_ptr<Int8Weights>> int8_ = {};
  std::vector<std::unique_ptr<GuardedBytes>> stored_ = {};
};

constexpr float kAlpha = 1.702f, kLimit = 0.9f;

template <class T>
void multiply(Matrix x, const Sizes& s, std::span<const ExpertMatrices> experts, bool int8,
              ExpertGate gate, const Chosen& chosen, GuardedMatrix<T>& out) {
  const int64_t choices = s.rows * s.choices(), width = std::max(s.width, s.shared_width);
  NanBytes gated_rows(choices * width * int64_t{sizeof(T)}), outputs(choices * s.cols * 4);
  NanBytes panels(std::max(int8_input_bytes(s.rows, s.cols), int8_input_bytes(choices, width)));
  const ExpertProductsArgs args = {.type = kTypeOf<T>,
                                   .is_int8 = int8,
                                   .x = x,
                                   .panels = panels.as<void>(),
                                   .num_rows = s.rows,
                                   .cols = s.cols,
                                   .choices = s.choices(),
                                   .max_width = static_cast<int>(width),
                                   .numbers = chosen.numbers.data(),
                                   .starts = chosen.starts.data(),
                                   .weights = chosen.weights.data(),
                                   .gate = gate,
                                   .alpha = kAlpha,
                                   .limit = kLimit,
                                   .gated = gated_rows.as<void>(),
                                   .outputs = outputs.as<float>(),
                                   .out = out.matrix()};
  if (int8) {
    launch_quantize({kTypeOf<T>, x, s.rows, s.cols, panels.as<void>()}, nullptr);
  }
  launch_expert_gates(args, experts, nullptr);
  if (int8) {
    const Matrix rows = {gated_rows.as<void>(), width};
    launch_quantize({kTypeOf<T>, rows, choices, width, panels.as<void>()}, nullptr);
  }
  launch_expert_outputs(args, experts, nullptr);
  launch_expert_sum(args, nullptr);
}

// The largest difference of the products from the CPU's in float32; 0 if all bits are equal.
template <class T>
double check_products(Random& random, const Sizes& s, bool int8) {
  INFO(s.rows << " rows of " << s.cols << ", " << s.per_row << " of " << s.experts << " experts of "
              << s.width << ", shared " << s.shared_width);
  const auto cpu = make_cpu_ops({.compute = DType::kF32});
  const bool biases = random.below(2);
  ExpertNumbers<T> numbers(random, s, int8, biases, *cpu);
  RouterNumbers router(random, s, false, s.shared_width > 0);
  GuardedMatrix<T> x(random, s.rows, s.cols, random.below(2));
  x.fill(random);
  std::vector<float> values;
  for (int i = 0; i < s.rows; ++i) {
    for (int j = 0; j < s.cols; ++j) values.push_back(x(i, j));
  }
  Chosen chosen(s);
  choose(kTypeOf<T>, x.matrix(), router, s, chosen);
  const int kind = random.below(3);
  const auto gate = static_cast<ExpertGate>(kind);
  GuardedMatrix<T> out(random, s.rows, s.cols, random.below(2));
  multiply(x.matrix(), s, numbers.matrices, int8, gate, chosen, out);
  CHECK(out.guards_are_whole());

  std::vector<float> expected(values.size());
  cpu->arithmetic().Arithmetic::multiply_experts(
      floats(values, s.rows, s.cols), chosen.choice(s), chosen.groups(), numbers.experts,
      static_cast<Activation>(kind), {kAlpha, kLimit}, floats(expected, s.rows, s.cols));
  double worst = 0;
  for (int i = 0; i < s.rows; ++i) {
    for (int j = 0; j < s.cols; ++j) {
      const double error = std::abs(double{out(i, j)} - expected[product(i, s.cols) + j]);
      if (!(error <= worst)) worst = error;  // NaN too
    }
  }
  // A row alone has the same bits.
  const int row = random.below(s.rows);
  Sizes one = s;
  one.rows = 1;
  const Matrix x_row = {&x.at(row, 0), x.matrix().stride};
  Chosen alone(one);
  choose(kTypeOf<T>, x_row, router, one, alone);
  GuardedMatrix<T> out_row(random, 1, s.cols, false);
  multiply(x_row, one, numbers.matrices, int8, gate, alone, out_row);
  int64_t differences = 0;
  for (int j = 0; j < s.cols; ++j) differences += !same(out_row(0, j), out(row, j));
  CHECK(differences == 0);
  return worst;
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

TEST_CASE("the GPU's products of experts are near the CPU's, and in float32 of int8 its bits") {
  Random random{2};
  for (int round = 0; round < 10; ++round) {
    const int experts = random.between(1, round % 4 ? 7 : 70);  // more than in a launch
    const Sizes s = {.rows = random.between(1, round % 3 ? 12 : 90),
                     .cols = random.between(1, 130),
                     .experts = experts,
                     .per_row = random.between(1, std::min(experts, 3)),
                     .width = random.between(1, 100),
                     .shared_width = random.below(2) ? 0 : random.between(1, 150)};
    CHECK(check_products<float>(random, s, false) < 2e-5);
    CHECK(check_products<__nv_bfloat16>(random, s, false) < 6e-2);
    CHECK(check_products<__half>(random, s, false) < 2e-2);
    CHECK(check_products<float>(random, s, true) == 0);
    CHECK(check_products<__half>(random, s, true) < 0.15);  // integers beside
  }
  const Sizes wide = {.rows = 3, .cols = 600, .experts = 2, .per_row = 2, .width = 300};
  CHECK(check_products<float>(random, wide, true) == 0);
}

}  // namespace pagedinfer::kernels
