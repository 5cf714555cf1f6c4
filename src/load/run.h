#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "kv/kv_pool.h"
#include "load/loaded_model.h"

namespace pagedinfer {

// The bookkeeping of the plan's cache. Throws Error if it has no room for one sequence.
std::unique_ptr<KvPool> make_pool(const RunPlan& plan);

// The pool and the cache of one run over a loaded model.
class Run {
 public:
  // `plan` is one of the model's, whose weights get the frequencies of rope for it. REQUIRES: both
  // outlive this and stay where they are, and no other Run over the model is used any more.
  Run(LoadedModel& model, const RunPlan& plan);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Computes a few steps, a prompt's and decodes, and discards their results, so that what a device
  // does at first use is over when a run begins. Writes nothing to the cache. REQUIRES: the model
  // is loaded, and no step is in flight.
  void warm_up();

  // What an engine runs on.
  EngineParts parts(std::function<double()> clock);

 private:
  LoadedModel& model_;
  const RunPlan& plan_;
  std::unique_ptr<KvPool> pool_;
  std::vector<KvLayer> cache_ = {};
};

}  // namespace pagedinfer
