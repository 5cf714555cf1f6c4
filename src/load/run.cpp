#include "load/run.h"

#include <algorithm>
#include <utility>

#include "core/batch.h"
#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "model/decoder.h"

namespace pagedinfer {

std::unique_ptr<KvPool> make_pool(const RunPlan& plan) {
  if (plan.kv == Config::Kv::kContiguous) {
    return std::make_unique<ContiguousPool>(plan.memory.num_positions(), plan.limits.max_model_len);
  }
  return std::make_unique<PagedPool>(plan.memory.num_blocks, plan.memory.block_size);
}

namespace {

// A batch of sequences that each compute `count` tokens after `context` others. They write nothing,
// and read whatever is at the beginning of the cache.
Batch unwritten_batch(int num_seqs, int context, int count, int block_size) {
  const int end = context + count;
  Batch batch = {.query_starts = {0},
                 .max_blocks = (end + block_size - 1) / block_size,
                 .block_size = block_size};
  for (int s = 0; s < num_seqs; ++s) {
    for (int p = context; p < end; ++p) batch.positions.push_back(p);
    batch.query_starts.push_back(static_cast<int32_t>(batch.positions.size()));
    batch.context_lens.push_back(end);
    batch.logit_tokens.push_back(batch.query_starts.back() - 1);
  }
  batch.tokens.assign(batch.positions.size(), 0);
  batch.slot_mapping.assign(batch.positions.size(), -1);
  batch.block_table.assign(static_cast<size_t>(num_seqs) * static_cast<size_t>(batch.max_blocks),
                           0);
  return batch;
}

}  // namespace

Run::Run(LoadedModel& model, const RunPlan& plan)
    : model_(model), plan_(plan), pool_(make_pool(plan)) {
  if (model.pool_in_front) pool_ = model.pool_in_front(std::move(pool_));
  const ModelSpec& spec = model.plan.opened.spec;
  model.plan.ops->memory().clear_kv();
  use_ropes(spec, plan.limits.max_model_len, model.weights);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    cache_.push_back(model.plan.ops->memory().allocate_kv(
        plan.kv_type, spec.kv_heads, spec.head_dim, plan.memory.num_positions()));
  }
}

void Run::warm_up() {
  const EngineParts on = parts([] { return 0.0; });
  const SamplingParams greedy, drawn = {.temperature = 1.0f, .top_p = 0.9f};
  const auto compute = [&](int num_seqs, int context, int count) {
    const Batch batch = unwritten_batch(num_seqs, context, count, pool_->block_size());
    const BatchView view = on.steps.stage(batch);
    const Tensor logits = on.steps.run(view, [&] {
      return forward(on.spec, on.weights, on.cache, view, on.steps, on.arithmetic);
    });
    std::vector<SampleRow> rows = {{.params = &greedy, .position = 1}};
    if (num_seqs > 1) rows.push_back({.params = &drawn, .position = 1, .logits_row = 1});
    std::vector<DrawnToken> tokens(rows.size());
    on.steps.collect(on.steps.sample(logits, rows), tokens);
  };
  constexpr int kPrompt = 256;
  const int count = std::min({kPrompt, plan_.limits.max_model_len, plan_.limits.max_step_tokens});
  compute(1, 0, count);
  // The first step of a shape is queued call by call, the second may be captured as a graph.
  for (int i = 0; i < 2; ++i) compute(plan_.limits.max_running, 0, 1);
}

EngineParts Run::parts(std::function<double()> clock) {
  return {.spec = model_.plan.opened.spec,
          .weights = model_.weights,
          .cache = cache_,
          .pool = *pool_,
          .steps = model_.steps(),
          .arithmetic = model_.arithmetic(),
          .tokenizer = model_.plan.tokenizer.get(),
          .clock = std::move(clock),
          .overlaps = model_.plan.backend->info.overlaps};
}

}  // namespace pagedinfer
