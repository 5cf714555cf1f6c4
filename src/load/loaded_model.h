#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kv/kv_pool.h"
#include "load/model_plan.h"
#include "ops/ops.h"
#include "settings/config.h"

namespace pagedinfer {

// A planned model whose weights are on its device. The runs of a process share it.
struct LoadedModel {
  ModelPlan plan;
  Weights weights = {};
  // Throws Error if a file that steps read from has changed since it was opened.
  void check_files();

  // Decorators of the plan's `ops`; null: it is used directly.
  std::unique_ptr<StepProtocol> steps_in_front = {};
  std::unique_ptr<Arithmetic> arithmetic_in_front = {};
  StepProtocol& steps() { return steps_in_front ? *steps_in_front : plan.ops->steps(); }
  Arithmetic& arithmetic() {
    return arithmetic_in_front ? *arithmetic_in_front : plan.ops->arithmetic();
  }
  // Decorates the pool of each run; empty: the pool is used directly.
  std::function<std::unique_ptr<KvPool>(std::unique_ptr<KvPool>)> pool_in_front = {};
};

// Whether the memory of several runs is touched before the first run. Otherwise the first run would
// pay for it, and measurements would differ.
enum class Touch : bool { kNo, kYes };

// Reserves one cache and one step memory that are large enough for every planned run, and loads the
// weights. Throws Error, also if a file of weights has changed since plan_model().
LoadedModel load_model(ModelPlan plan, Touch touch = Touch::kYes);

// The same for the plan_model() of `configs`.
LoadedModel load_model(const std::vector<Config>& configs, const std::function<double()>& clock,
                       Touch touch = Touch::kYes);

}  // namespace pagedinfer
