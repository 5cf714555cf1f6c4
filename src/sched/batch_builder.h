#pragma once

#include <span>

#include "core/batch.h"
#include "sched/step_plan.h"

namespace pagedinfer {

// Flattens a plan into the arrays that the model reads. `sequences` are the sequences of the plan's
// chunks, in order. Replaces the contents of `batch` and reuses its memory.
void build_batch(const StepPlan& plan, std::span<const Sequence* const> sequences, int block_size,
                 Batch& batch);

}  // namespace pagedinfer
