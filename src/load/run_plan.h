#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/tensor.h"
#include "load/host_share.h"
#include "load/memory_plan.h"
#include "model/spec.h"
#include "ops/backend_info.h"
#include "sched/scheduler.h"
#include "settings/config.h"

namespace pagedinfer {

// The sizes of a run.
struct RunPlan {
  SchedulerLimits limits = {};
  Config::Kv kv = Config::Kv::kPaged;
  DType kv_type = DType::kBF16;  // of keys and values
  StepBounds bounds = {};
  HostShare host = {};
  MemoryPlan memory = {};
};

// The model that a run is planned for.
struct PlannedModel {
  const ModelSpec& spec;
  const BackendInfo& backend;
  const DeviceMemory& memory;
  DType activation_type = DType::kBF16;  // of steps
  bool fuses_gate = false;               // Arithmetic::fuses_gate()
  Quantization quantize = Quantization::kNone;
  DType kv_type = DType::kBF16;  // of keys and values, unless a configuration asks for another
  int64_t weight_bytes = 0;
  int64_t tokenizer_bytes = 0;
  int64_t form_bytes = 0;  // bytes that compiled forms may take
  // What the weights would take otherwise; may be empty.
  std::function<int64_t(Quantization)> weight_bytes_as = {};
};

// Bytes of a cache of type `kv_type` with `num_positions` positions, in all layers.
int64_t kv_bytes_of(const PlannedModel& model, DType kv_type, int64_t num_positions);

// The parts of a step's memory. The rest is workspace.
struct StepBytes {
  int64_t activations = 0;  // without the logits
  int64_t logits = 0;
  int64_t workspace = 0;
  int64_t total() const { return activations + logits + workspace; }
};
StepBytes step_bytes(const PlannedModel& model, const StepBounds& bounds);

// Plans one run for each configuration. The runs use the same model one after the other. Each plan
// has its own cache size, but all have the same step memory, enough for the steps of every run.
// `available_bytes(config)` is the memory that the process can still allocate. Throws Error if a
// configuration does not fit the model or the memory.
std::vector<RunPlan> plan_runs(const std::vector<Config>& configs, const PlannedModel& model,
                               const std::function<int64_t(const Config&)>& available_bytes);

// Bounds that hold for the steps of all plans.
StepBounds bounds_of_all(const std::vector<RunPlan>& plans);

}  // namespace pagedinfer
