#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "kv/kv_pool.h"
#include "load/loaded_model.h"

namespace pagedinfer {

// Makes the pool of the plan's cache. Throws Error if it has no room for one sequence.
std::unique_ptr<KvPool> make_pool(const RunPlan& plan);

// The pool and the cache of one run over a loaded model.
class Run {
 public:
  // Sets the rope frequencies in the model's weights for `plan`, which is one of the model's plans.
  // REQUIRES: model and plan outlive the Run and do not move; no earlier Run over the model is used
  // again.
  Run(LoadedModel& model, const RunPlan& plan);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Computes a few steps, of a prompt and of decodes, and discards their results, so that a device
  // has done its first-use work before the run begins. Writes nothing to the cache. REQUIRES: the
  // model is loaded, and no step is in flight.
  void warm_up();

  // The parts for an Engine.
  EngineParts parts(std::function<double()> clock);

 private:
  LoadedModel& model_;
  const RunPlan& plan_;
  std::unique_ptr<KvPool> pool_;
  std::vector<KvLayer> cache_ = {};
};

}  // namespace pagedinfer
