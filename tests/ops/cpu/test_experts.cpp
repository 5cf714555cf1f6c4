// Experts on the CPU against the plain loops of Arithmetic's default bodies, and the choice of
// experts against a softmax in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "ops/cpu/cpu_experts.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gate_block.h"
#include "ops/cpu/packed_input.h"
#include "tests/support/ops_support.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

namespace {

// Gate and up of the last expert, which may be a shared one, may have a type of their own.
struct ExpertTypes {
  DType compute, type, down, last;
};
constexpr ExpertTypes kExpertTypes[] = {{DType::kBF16, DType::kBF16, DType::kBF16, DType::kBF16},
                                        {DType::kBF16, DType::kI8, DType::kI8, DType::kI8},
                                        {DType::kF32, DType::kF32, DType::kF32, DType::kF32},
                                        {DType::kF32, DType::kBF16, DType::kF16, DType::kBF16},
                                        {DType::kF32, DType::kI8, DType::kI8, DType::kI8},
                                        {DType::kBF16, DType::kI4, DType::kI4, DType::kI4},
                                        {DType::kF32, DType::kI4, DType::kI8, DType::kF32},
                                        {DType::kBF16, DType::kI8, DType::kI4, DType::kI4},
                                        {DType::kBF16, DType::kBF16, DType::kI4, DType::kI8}};

// A block of experts, whose numbers are exact in the types of the weights.
struct ExpertCase {
  int rows, k, experts, per_row, width, shared_width;  // 0: no shared expert
  bool normalizes_chosen, gates_shared, has_biases;
  Activation activation;
};

std::vector<std::unique_ptr<Ops>> expert_ops(DType compute) {
  std::vector<std::unique_ptr<Ops>> all;
  for (const CpuIsa isa : available_isas()) {
    for (const int threads : {1, 3, 9}) {
      all.push_back(make_cpu_ops({isa, threads, compute}));
      if (can_pack(compute)) all.push_back(make_cpu_ops({isa, threads, compute, true}));
    }
  }
  return all;
}

// The numbers of a case, and a device's form of them.
class ExpertBlockOf {
 public:
  ExpertBlockOf(Random& random, const ExpertCase& c, const ExpertTypes& types)
      : c_(c), types_(types), x(random.normals(size_t(c.rows) * c.k)) {
    const auto matrix = [&](int rows, int cols, DType type) {
      std::vector<float> numbers =
          random.normals(size_t(rows) * cols, 1.5f / std::sqrt(float(cols)));
      for (float& number : numbers) number = as_stored(number, type);
      return numbers;
    };
    router_ = random.normals(size_t(c.experts) * c.k, 1.0f / std::sqrt(float(c.k)));
    router_bias_ = random.normals(size_t(c.experts));
    shared_gate_ = random.normals(size_t(c.k));
    for (int e = 0; e < num_experts(); ++e) {
      const int width = e < c.experts ? c.width : c.shared_width;
      const DType type = type_of(e);
      numbers_.push_back({matrix(width, c.k, type), matrix(width, c.k, type),
                          matrix(c.k, width, types.down), random.normals(size_t(width)),
                          random.normals(size_t(width)), random.normals(size_t(c.k))});
    }
  }

  int num_experts() const { return c_.experts + (c_.shared_width > 0 ? 1 : 0); }

  Router router() {
    return {.weight = floats(router_, c_.experts, c_.k),
            .bias = c_.has_biases ? floats(router_bias_, 1, c_.experts) : Tensor(),
            .per_row = c_.per_row,
            .normalizes_chosen = c_.normalizes_chosen,
            .has_shared = c_.shared_width > 0,
            .shared_gate = c_.gates_shared ? floats(shared_gate_, 1, c_.k) : Tensor()};
  }

  std::vector<Expert> upload(Ops& ops) {
    std::vector<Expert> experts;
    for (int e = 0; e < num_experts(); ++e) {
      auto& [gate, up, down, gate_bias, up_bias, down_bias] = numbers_[size_t(e)];
      const int width = e < c_.experts ? c_.width : c_.shared_width;
      Expert expert = {.gate = upload(ops, gate, width, c_.k, type_of(e)),
                       .up = upload(ops, up, width, c_.k, type_of(e)),
                       .down = upload(ops, down, c_.k, width, types_.down)};
      if (c_.has_biases) {
        expert.gate_bias = floats(gate_bias, 1, width);
        expert.up_bias = floats(up_bias, 1, width);
        expert.down_bias = floats(down_bias, 1, c_.k);
      }
      experts.push_back(expert);
    }
    return experts;
  }

  static Tensor floats(std::vector<float>& numbers, int64_t rows, int64_t cols) {
    return {numbers.data(), DType::kF32, rows, cols, cols};
  }

 private:
  struct Numbers {
    std::vector<float> gate, up, down, gate_bias, up_bias, down_bias;
  };

  DType type_of(int expert) const { return expert + 1 < num_experts() ? types_.type : types_.last; }

  Tensor upload(Ops& ops, std::vector<float>& numbers, int rows, int cols, DType type) {
    const Tensor matrix = floats(numbers, rows, cols);
    if (type == DType::kI4) {
      return ops.memory().upload_codes(rounded_to_codes(stored_rows(matrix), rows % 2 ? 32 : 128));
    }
    if (type == DType::kI8) return ops.memory().upload_matrix(matrix, type);
    memory_.push_back(std::make_unique<GuardedBytes>(numbers.size() * size_t(size_of(type))));
    store_numbers(numbers.data(), std::ssize(numbers), type, memory_.back()->data());
    return ops.memory().upload_matrix({memory_.back()->data(), type, rows, cols, cols}, type);
  }

  const ExpertCase c_;
  const ExpertTypes types_;
  std::vector<float> router_, router_bias_, shared_gate_;
  std::vector<Numbers> numbers_;
  std::vector<std::unique_ptr<GuardedBytes>> memory_;  // what a device only views

 public:
  std::vector<float> x;
};

// The results of the three operations.
struct ExpertResults {
  std::vector<int32_t> chosen, numbers, starts;
  std::vector<float> weights, y;
  int64_t choices = 0;

  ExpertResults(int64_t rows, const Router& router)
      : chosen(size_t(rows * router.choices()), -1),
        numbers(chosen.size(), -1),
        starts(size_t(router.experts()) + 1, -1),
        weights(chosen.size(), -1.0f),
        y(size_t(rows * router.weight.cols), -1.0f),
        choices(router.choices()) {}

  ExpertChoice choice() {
    const auto rows = std::ssize(chosen) / choices;
    return {{chosen.data(), DType::kI32, rows, choices, choices},
            {weights.data(), DType::kF32, rows, choices, choices}};
  }
  ExpertGroups groups() {
    const auto row = [](std::vector<int32_t>& list) {
      return Tensor{list.data(), DType::kI32, 1, std::ssize(list), std::ssize(list)};
    };
    return {row(numbers), row(starts)};
  }
};

ExpertResults grouped(Ops& ops, Tensor x, const Router& router, const std::vector<Expert>& experts,
                      const ExpertCase& c) {
  ExpertResults r(x.rows, router);
  ops.arithmetic().route(x, router, r.choice());
  ops.arithmetic().group_by_expert(r.choice(), r.groups());
  ops.arithmetic().multiply_experts(x, r.choice(), r.groups(), experts, c.activation,
                                    {1.702f, 0.9f}, ExpertBlockOf::floats(r.y, x.rows, x.cols));
  return r;
}

ExpertResults in_plain_loops(Ops& ops, Tensor x, const Router& router,
                             const std::vector<Expert>& experts, const ExpertCase& c) {
  ExpertResults r(x.rows, router);
  ops.arithmetic().Arithmetic::route(x, router, r.choice());
  ops.arithmetic().Arithmetic::group_by_expert(r.choice(), r.groups());
  ops.arithmetic().Arithmetic::multiply_experts(x, r.choice(), r.groups(), experts, c.activation,
                                                {1.702f, 0.9f},
                                                ExpertBlockOf::floats(r.y, x.rows, x.cols));
  return r;
}

void check_expert_case(Random& random, const ExpertCase& c, const ExpertTypes& types,
                       const std::vector<std::unique_ptr<Ops>>& all) {
  ExpertBlockOf block(random, c, types);
  const Tensor x = ExpertBlockOf::floats(block.x, c.rows, c.k);
  const Router router = block.router();
  std::optional<ExpertResults> expected;
  for (const auto& ops : all) {
    INFO(ops->description() << ", " << name_of(types.type) << ": " << c.rows << " rows, "
                            << c.per_row << " of " << c.experts << " experts of " << c.k << " x "
                            << c.width << ", shared " << c.shared_width);
    const std::vector<Expert> experts = block.upload(*ops);
    if (!expected) expected = in_plain_loops(*ops, x, router, experts, c);
    const ExpertResults found = grouped(*ops, x, router, experts, c);
    CHECK(found.chosen == expected->chosen);
    CHECK(found.numbers == expected->numbers);
    CHECK(found.starts == expected->starts);
    CHECK(count_differences(found.weights, expected->weights) == 0);
    CHECK(count_differences(found.y, expected->y) == 0);
    // A row alone.
    const int i = random.below(c.rows);
    const Tensor row = {x.row<float>(i), DType::kF32, 1, x.cols, x.stride};
    const ExpertResults alone = grouped(*ops, row, router, experts, c);
    CHECK(count_differences(alone.y, std::span(expected->y).subspan(size_t(i) * c.k, c.k)) == 0);
  }
}

}  // namespace

TEST_CASE("experts have the bits of plain loops, on all instruction sets and threads") {
  Random random{31};
  constexpr int kRows[] = {1, 2, 15, 17, 40, 70, 150};
  constexpr int kWidths[] = {1, 20, 255, 256, 257, 530};
  for (const ExpertTypes& types : kExpertTypes) {
    const auto all = expert_ops(types.compute);
    for (int i = 0; i < 8; ++i) {
      const int experts = random.between(1, 9);
      const ExpertCase c = {.rows = kRows[random.below(std::size(kRows))],
                            .k = random.between(1, i % 2 ? 70 : 300),
                            .experts = experts,
                            .per_row = random.between(1, experts),
                            .width = kWidths[random.below(std::size(kWidths))],
                            .shared_width = i % 3 ? random.between(1, 300) : 0,
                            .normalizes_chosen = i % 2 == 0,
                            .gates_shared = random.below(2) == 0,
                            .has_biases = random.below(2) == 0,
                            .activation = static_cast<Activation>(random.below(3))};
      check_expert_case(random, c, types, all);
    }
  }
}

TEST_CASE("an expert with more rows than a block has the same bits") {
  Random random{32};
  for (const ExpertTypes& types : kExpertTypes) {
    const auto all = expert_ops(types.compute);
    check_expert_case(random,
                      {.rows = 600,
                       .k = 33,
                       .experts = 2,
                       .per_row = 1,
                       .width = 40,
                       .shared_width = 21,
                       .normalizes_chosen = false,
                       .gates_shared = true,
                       .has_biases = false,
                       .activation = Activation::kSilu},
                      types, all);
  }
}

TEST_CASE("a block of a gate ends where its columns can be packed by themselves") {
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx}) {
    for (const DType input : {DType::kI8, DType::kI4}) {
      CHECK(gate_block(isa, input).columns % 256 == 0);  // what shares a scale
    }
  }
}

TEST_CASE("a row has the experts of its largest logits, and their softmax") {
  Random random{33};
  const auto ops = make_cpu_ops({available_isas().back(), 2, DType::kBF16});
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    const int rows = random.between(1, 40), k = random.between(1, 200);
    const int experts = random.between(1, 70), per_row = random.between(1, std::min(experts, 9));
    std::vector<float> x = random.normals(size_t(rows) * k);
    std::vector<float> weight = random.normals(size_t(experts) * k, 2 / std::sqrt(float(k)));
    std::vector<float> bias = random.normals(size_t(experts)), gate = random.normals(size_t(k));
    const Router router = {.weight = ExpertBlockOf::floats(weight, experts, k),
                           .bias = ExpertBlockOf::floats(bias, 1, experts),
                           .per_row = per_row,
                           .normalizes_chosen = i % 2 == 0,
                           .has_shared = true,
                           .shared_gate = ExpertBlockOf::floats(gate, 1, k)};
    ExpertResults found(rows, router);
    ops->arithmetic().route(ExpertBlockOf::floats(x, rows, k), router, found.choice());
    for (int row = 0; row < rows; ++row) {
      const auto product = [&](const float* w) {
        return std::inner_product(w, w + k, &x[size_t(row) * k], 0.0);
      };
      std::vector<double> logits;
      for (int e = 0; e < experts; ++e) logits.push_back(product(&weight[size_t(e) * k]) + bias[e]);
      std::vector<int32_t> order(size_t(experts), 0);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, std::ranges::greater{}, [&](int e) { return logits[size_t(e)]; });
      const bool is_close = per_row < experts && logits[size_t(order[size_t(per_row) - 1])] -
                                                         logits[size_t(order[size_t(per_row)])] <
                                                     1e-4;
      if (is_close) continue;
      std::vector<int32_t> chosen(order.begin(), order.begin() + per_row);
      std::ranges::sort(chosen);
      double sum = 0;
      for (const int32_t e : router.normalizes_chosen ? chosen : order) {
        sum += std::exp(logits[size_t(e)]);
      }
      const size_t at = size_t(row) * size_t(per_row + 1);
      for (size_t c = 0; c < chosen.size(); ++c) {
        CHECK(found.chosen[at + c] == chosen[c]);
        CHECK(found.weights[at + c] ==
              doctest::Approx(std::exp(logits[size_t(chosen[c])]) / sum).epsilon(1e-4));
      }
      CHECK(found.chosen[at + chosen.size()] == experts);
      CHECK(found.weights[at + chosen.size()] ==
            doctest::Approx(1 / (1 + std::exp(-product(gate.data())))).epsilon(1e-4));
      ++checked;
    }
  }
  CHECK(checked > 500);
}

TEST_CASE("of equal logits a row has the experts of the lower index") {
  constexpr int kExperts = 6, kColumns = 5;
  std::vector<float> x(kColumns, 1.0f), weight(size_t(kExperts) * kColumns, 0.25f);
  weight[3 * kColumns] = 0.5f;  // expert 3 leads, all others are equal
  const Router router = {.weight = ExpertBlockOf::floats(weight, kExperts, kColumns), .per_row = 3};
  for (const CpuIsa isa : available_isas()) {
    const auto ops = make_cpu_ops({isa, 2, DType::kBF16});
    ExpertResults found(1, router);
    ops->arithmetic().route(ExpertBlockOf::floats(x, 1, kColumns), router, found.choice());
    CHECK(found.chosen == std::vector<int32_t>{0, 1, 3});
  }
}

TEST_CASE("weights of experts without a row are not read") {
  Random random{34};
  const ExpertTypes types = {DType::kF32, DType::kF32, DType::kF32, DType::kF32};
  const ExpertCase c = {.rows = 3,
                        .k = 20,
                        .experts = 4,
                        .per_row = 2,
                        .width = 30,
                        .shared_width = 0,
                        .normalizes_chosen = true,
                        .gates_shared = false,
                        .has_biases = false,
                        .activation = Activation::kSilu};
  ExpertBlockOf block(random, c, types);
  const auto ops = make_cpu_ops({available_isas().back(), 2, types.compute});
  std::vector<Expert> experts = block.upload(*ops);
  // Expert 2 has no row; to read its weights would be a fault.
  for (Tensor* matrix : {&experts[2].gate, &experts[2].up, &experts[2].down}) {
    matrix->data = reinterpret_cast<void*>(uintptr_t{64});
  }
  const Router router = block.router();
  ExpertResults r(c.rows, router);
  r.chosen = {0, 1, 1, 3, 0, 3};
  std::ranges::fill(r.weights, 0.5f);
  ops->arithmetic().group_by_expert(r.choice(), r.groups());
  CHECK(r.starts == std::vector<int32_t>{0, 2, 4, 4, 6});
  CHECK(r.numbers == std::vector<int32_t>{0, 4, 1, 2, 3, 5});
  const Tensor x = ExpertBlockOf::floats(block.x, c.rows, c.k);
  ops->arithmetic().multiply_experts(x, r.choice(), r.groups(), experts, c.activation, {},
                                     ExpertBlockOf::floats(r.y, c.rows, c.k));
  CHECK(std::ranges::all_of(r.y, [](float y) { return std::isfinite(y); }));
}

TEST_CASE("the memory that is planned for experts is enough for any choice") {
  Random random{35};
  for (int round = 0; round < 300; ++round) {
    const int experts = random.below(40) + 1, per_row = random.below(std::min(experts, 9)) + 1;
    const StepBounds bounds = {.tokens = random.below(90) + 1,
                               .experts = {.experts = experts,
                                           .per_row = per_row,
                                           .hidden = random.below(600) + 1,
                                           .width = random.below(600) + 1,
                                           .shared_width = random.below(2) * 300}};
    // Tokens take the experts in turn, or all take the first ones, or each begins anywhere.
    const int kind = random.below(3);
    std::vector<int64_t> rows(static_cast<size_t>(experts));
    for (int64_t token = 0; token < bounds.tokens; ++token) {
      const int64_t first = kind == 0 ? token * per_row : kind == 1 ? 0 : random.below(experts);
      for (int i = 0; i < per_row; ++i) ++rows[static_cast<size_t>((first + i) % experts)];
    }
    const ExpertBounds& e = bounds.experts;
    int64_t needed = packed_bytes(bounds.tokens, e.hidden) +
                     bounds.tokens * (experts + 1) * size_of(DType::kF32);
    if (e.shared_width > 0) {
      needed += packed_bytes(bounds.tokens, e.hidden) + packed_bytes(bounds.tokens, e.shared_width);
    }
    for (const int64_t count : rows) {
      needed += packed_bytes(count, e.hidden) + packed_bytes(count, e.width);
    }
    CHECK(CpuExperts::step_bytes(bounds) >= needed);
  }
}

}  // namespace pagedinfer
