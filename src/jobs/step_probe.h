#pragma once

#include <functional>
#include <vector>

#include "core/batch.h"
#include "engine/run.h"
#include "jobs/step_costs.h"

namespace pagedinfer {

// Computes steps of a loaded model to measure how long they take. What they compute has no meaning:
// the cache need not hold what the steps read.
class StepProbe {
 public:
  // Draws as `sampling` says; sequences have their first `shared` tokens in common; `clock` gives
  // seconds. REQUIRES: the model is loaded, and outlives this with the plan, which is one of its
  // own.
  StepProbe(LoadedModel& model, const RunPlan& plan, SamplingParams sampling, int shared,
            const std::function<double()>& clock);

  // The seconds that it takes, with the making of its arrays.
  double operator()(const ProbedStep& step);

 private:
  void build(const ProbedStep& step);
  void compute();
  void fill(int64_t num_blocks);

  Run run_;
  const EngineParts parts_;
  const int64_t num_blocks_;  // that steps use
  const int num_shared_;      // the first of them, if all sequences share them
  const SamplingParams sampling_;
  int64_t num_filled_ = 1;  // of the blocks
  Batch batch_ = {};
  std::vector<SampleRow> rows_ = {};
  std::vector<DrawnToken> drawn_ = {};
};

}  // namespace pagedinfer
