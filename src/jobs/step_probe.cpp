#include "jobs/step_probe.h"

#include <algorithm>
#include <utility>

namespace pagedinfer {
namespace {

// More than the processor's caches hold, and no more than can be written in a moment.
constexpr int64_t kMaxCacheBytes = int64_t{1} << 30;

int64_t num_blocks_of(const KvPool& pool, const MemoryPlan& memory) {
  const int64_t bytes = memory.kv_bytes_per_token * pool.block_size();
  const int64_t all = pool.stats().positions_total / pool.block_size();
  return std::clamp<int64_t>(kMaxCacheBytes / bytes, 1, all);
}

}  // namespace

StepProbe::StepProbe(LoadedModel& model, const RunPlan& plan, SamplingParams sampling, int shared,
                     const std::function<double()>& clock)
    : run_(model, plan),
      parts_(run_.parts(clock)),
      num_blocks_(num_blocks_of(parts_.pool, plan.memory)),
      num_shared_(
          static_cast<int>(std::min<int64_t>(shared / parts_.pool.block_size(), num_blocks_ - 1))),
      sampling_(std::move(sampling)) {}

// Sequence after sequence gets the next blocks. Where the cache has no more, a sequence reads those
// of another one and writes nothing.
void StepProbe::build(const ProbedStep& step) {
  const int size = parts_.pool.block_size(), end = step.context + step.count;
  const int blocks = (end + size - 1) / size;
  const int shared = std::min(num_shared_, blocks), own = blocks - shared;
  const int64_t num_own = num_blocks_ - num_shared_;
  batch_ = Batch{.query_starts = {0}, .max_blocks = blocks, .block_size = size};
  rows_.clear();
  for (int s = 0; s < step.sequences; ++s) {
    const bool has_room = int64_t{s + 1} * own <= num_own;
    const size_t table = batch_.block_table.size();
    for (int i = 0; i < blocks; ++i) {
      const int64_t of_own = num_shared_ + (int64_t{s} * own + i - shared) % num_own;
      const int64_t block = i < shared ? i : of_own;
      batch_.block_table.push_back(static_cast<int32_t>(block * size));
    }
    for (int p = step.context; p < end; ++p) {
      constexpr int kStride = 7919;  // a prime: tokens of the whole vocabulary
      const int64_t number = int64_t{batch_.num_tokens()} * kStride;
      batch_.tokens.push_back(static_cast<int32_t>(number % parts_.spec.vocab));
      batch_.positions.push_back(p);
      const int32_t slot = batch_.block_table[table + p / size] + p % size;
      const bool is_own = s == 0 || p / size >= shared;
      batch_.slot_mapping.push_back(has_room && is_own ? slot : -1);
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

// Writes blocks that steps will read: memory that was never written is read faster than it will be
// in a run.
void StepProbe::fill(int64_t num_blocks) {
  if (num_blocks <= num_filled_) return;
  build({});
  const int size = parts_.pool.block_size();
  for (int64_t i = num_filled_; i < num_blocks; ++i) {
    batch_.copies.push_back({0, static_cast<int32_t>(i * size), size});
  }
  compute();
  num_filled_ = num_blocks;
}

double StepProbe::operator()(const ProbedStep& step) {
  const int size = parts_.pool.block_size();
  const int blocks = (step.context + step.count + size - 1) / size;
  fill(std::min(num_blocks_, num_shared_ + int64_t{step.sequences} * blocks));
  const double begin = parts_.clock();
  build(step);
  compute();
  return parts_.clock() - begin;
}

void StepProbe::compute() {
  const BatchView view = parts_.steps.stage(batch_);
  if (!view.copies.empty()) parts_.steps.copy_kv(view, parts_.cache);
  const Tensor logits = parts_.steps.run(view, [&] {
    return forward(parts_.spec, parts_.weights, parts_.cache, view, parts_.steps,
                   parts_.arithmetic);
  });
  parts_.steps.collect(parts_.steps.sample(logits, rows_), drawn_);
}

}  // namespace pagedinfer
