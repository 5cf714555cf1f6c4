#include "engine/run.h"

#include <utility>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"

namespace pagedinfer {

std::unique_ptr<KvPool> make_pool(const RunPlan& plan) {
  if (plan.kv == Config::Kv::kContiguous) {
    return std::make_unique<ContiguousPool>(plan.memory.num_positions(), plan.limits.max_model_len);
  }
  return std::make_unique<PagedPool>(plan.memory.num_blocks, plan.memory.block_size);
}

Run::Run(LoadedModel& model, const RunPlan& plan) : model_(model), pool_(make_pool(plan)) {
  if (model.pool_in_front) pool_ = model.pool_in_front(std::move(pool_));
  const ModelSpec& spec = model.opened.spec;
  model.ops->clear_kv();
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    cache_.push_back(model.ops->allocate_kv(plan.kv_type, spec.kv_heads, spec.head_dim,
                                            plan.memory.num_positions()));
  }
}

EngineParts Run::parts(std::function<double()> clock) {
  return {.spec = model_.opened.spec,
          .weights = model_.weights,
          .cache = cache_,
          .pool = *pool_,
          .steps = model_.steps(),
          .arithmetic = model_.arithmetic(),
          .tokenizer = model_.tokenizer.get(),
          .clock = std::move(clock),
          .overlaps = model_.backend->info.overlaps};
}

}  // namespace pagedinfer
