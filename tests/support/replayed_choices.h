// Runs that choose the same experts, so that the errors of their products can be compared: where
// two logits of a router are close, an error of rounding decides which experts a row goes through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/golden_rows.h"
#include "tests/support/model_runner.h"
#include "tests/support/passed_on_arithmetic.h"

namespace pagedinfer {

// The experts and weights of each route() of a run, in their order.
struct RecordedChoices {
  struct Choice {
    std::vector<int32_t> experts;
    std::vector<float> weights;
  };
  std::vector<Choice> all = {};
};

// Adds the choices of a run on the CPU to `choices`.
class ChoiceRecorder : public PassedOnArithmetic {
 public:
  ChoiceRecorder(Arithmetic& inner, RecordedChoices& choices)
      : PassedOnArithmetic(inner), choices_(choices) {}

  void route(Tensor x, const Router& router, const ExpertChoice& choice) override {
    PassedOnArithmetic::route(x, router, choice);
    RecordedChoices::Choice& made = choices_.all.emplace_back();
    for (int64_t i = 0; i < choice.experts.rows; ++i) {
      const auto* const experts = choice.experts.row<int32_t>(i);
      const auto* const weights = choice.weights.row<float>(i);
      made.experts.insert(made.experts.end(), experts, experts + choice.experts.cols);
      made.weights.insert(made.weights.end(), weights, weights + choice.weights.cols);
    }
  }

 private:
  RecordedChoices& choices_;
};

// The choices of `runner` for recorded sequences (rows_of()).
inline RecordedChoices choices_of(ModelRunner runner, simdjson::dom::element sequences) {
  RecordedChoices choices;
  ChoiceRecorder recorder(*runner.arithmetic, choices);
  runner.arithmetic = &recorder;
  for (const simdjson::dom::element sequence : sequences) (void)rows_of(runner, sequence);
  return choices;
}

// Makes those choices again. REQUIRES: a run of the same model with the same steps.
class ChoiceReplay : public PassedOnArithmetic {
 public:
  ChoiceReplay(Arithmetic& inner, const RecordedChoices& choices)
      : PassedOnArithmetic(inner), choices_(choices) {}

  void route(Tensor, const Router&, const ExpertChoice& choice) override {
    const RecordedChoices::Choice& made = choices_.all.at(next_++);
    const int64_t columns = choice.experts.cols;
    for (int64_t i = 0; i < choice.experts.rows; ++i) {
      std::copy_n(made.experts.begin() + i * columns, columns, choice.experts.row<int32_t>(i));
      std::copy_n(made.weights.begin() + i * columns, columns, choice.weights.row<float>(i));
    }
  }

 private:
  const RecordedChoices& choices_;
  size_t next_ = 0;
};

}  // namespace pagedinfer
