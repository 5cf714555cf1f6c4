#include "engine/step_probe.h"

#include <utility>

namespace pagedinfer {

StepProbe::StepProbe(LoadedModel& model, const RunPlan& plan, SamplingParams sampling,
                     const std::function<double()>& clock)
    : run_(model, plan),
      parts_(run_.parts(clock)),
      num_positions_(parts_.pool.stats().positions_total),
      sampling_(std::move(sampling)) {}

// Sequence after sequence gets the next blocks. Where the cache has no more, a sequence reads those
// of another one and writes nothing.
void StepProbe::build(const ProbedStep& step) {
  const int size = parts_.pool.block_size(), end = step.context + step.count;
  const int blocks = (end + size - 1) / size;
  const int64_t num_blocks = num_positions_ / size;
  batch_ = Batch{.query_starts = {0}, .max_blocks = blocks, .block_size = size};
  rows_.clear();
  for (int s = 0; s < step.sequences; ++s) {
    const bool has_room = int64_t{s + 1} * blocks <= num_blocks;
    const size_t table = batch_.block_table.size();
    for (int i = 0; i < blocks; ++i) {
      const int64_t block = (int64_t{s} * blocks + i) % num_blocks;
      batch_.block_table.push_back(static_cast<int32_t>(block * size));
    }
    for (int p = step.context; p < end; ++p) {
      constexpr int kStride = 7919;  // a prime: tokens of the whole vocabulary
      const int64_t number = int64_t{batch_.num_tokens()} * kStride;
      batch_.tokens.push_back(static_cast<int32_t>(number % parts_.spec.vocab));
      batch_.positions.push_back(p);
      const int32_t slot = batch_.block_table[table + p / size] + p % size;
      batch_.slot_mapping.push_back(has_room ? slot : -1);
    }
    batch_.query_starts.push_back(batch_.num_tokens());
    batch_.context_lens.push_back(end);
    batch_.logit_tokens.push_back(batch_.num_tokens() - 1);
    rows_.push_back({.params = &sampling_,
                     .key = static_cast<uint64_t>(s),
                     .position = static_cast<uint32_t>(end),
                     .logits_row = s,
                     .num_log_probs = sampling_.num_log_probs});
  }
  drawn_.resize(rows_.size());
}

double StepProbe::operator()(const ProbedStep& step) {
  build(step);
  const double begin = parts_.clock();
  const BatchView view = parts_.steps.stage(batch_);
  const Tensor logits = parts_.steps.run(view, [&] {
    return forward(parts_.spec, parts_.weights, parts_.cache, view, parts_.steps,
                   parts_.arithmetic);
  });
  parts_.steps.collect(parts_.steps.sample(logits, rows_), drawn_);
  return parts_.clock() - begin;
}

}  // namespace pagedinfer
