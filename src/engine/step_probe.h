#pragma once

#include <functional>
#include <vector>

#include "core/batch.h"
#include "engine/run.h"
#include "engine/step_costs.h"

namespace pagedinfer {

// Computes steps of a loaded model to measure how long they take. What they compute has no meaning:
// the cache need not hold what the steps read.
class StepProbe {
 public:
  // Draws as `sampling` says; `clock` gives seconds. REQUIRES: the model is loaded, and outlives
  // this with the plan, which is one of its own.
  StepProbe(LoadedModel& model, const RunPlan& plan, SamplingParams sampling,
            const std::function<double()>& clock);

  // The seconds that it takes.
  double operator()(const ProbedStep& step);

 private:
  void build(const ProbedStep& step);

  Run run_;
  const EngineParts parts_;
  const int64_t num_positions_;
  const SamplingParams sampling_;
  Batch batch_ = {};
  std::vector<SampleRow> rows_ = {};
  std::vector<DrawnToken> drawn_ = {};
};

}  // namespace pagedinfer
