#include "load/loaded_model.h"

#include <algorithm>
#include <utility>

#include "model/decoder.h"

namespace pagedinfer {
namespace {

void reserve_memory(const ModelPlan& model) {
  const PlannedModel planned = model.planned();
  int64_t kv_bytes = 0;
  for (const RunPlan& plan : model.runs) kv_bytes = std::max(kv_bytes, plan.memory.kv_bytes);
  DeviceMemory& memory = model.ops->memory();
  memory.reserve_weights(planned.weight_bytes);
  memory.reserve_kv(kv_bytes);
  memory.reserve_steps(bounds_of_all(model.runs), model.runs.front().memory.activation_bytes);
}

}  // namespace

void LoadedModel::check_files() {
  for (WatchedFile& file : plan.weight_files) {
    if (weights.viewed_files.contains(file.path())) file.check();
  }
}

LoadedModel load_model(ModelPlan plan, Touch touch) {
  reserve_memory(plan);
  LoadedModel model{.plan = std::move(plan)};
  ModelPlan& of = model.plan;
  model.weights =
      load_weights(of.opened, of.options.compute, of.ops->memory(), of.quantize, of.dtype);
  for (WatchedFile& file : of.weight_files) file.check();
  if (of.adapter_file) of.adapter_file->check();
  of.ops->arithmetic().prepare(products_of_step(
      of.opened.spec, model.weights, of.ops->steps().activation_type(), bounds_of_all(of.runs)));
  if (of.runs.size() > 1 && touch == Touch::kYes) of.ops->memory().make_present();
  return model;
}

LoadedModel load_model(const std::vector<Config>& configs, const std::function<double()>& clock,
                       Touch touch) {
  return load_model(plan_model(configs, clock), touch);
}

}  // namespace pagedinfer
