#pragma once

#include <span>

#include "core/batch.h"
#include "sched/step_plan.h"

namespace pagedinfer {

// Flattens a plan into the arrays that the model reads. `sequences` are those of its chunks, in
// order. Whatever `batch` held is replaced; its memory is used again.
void build_batch(const StepPlan& plan, std::span<const Sequence* const> sequences, int block_size,
                 Batch& batch);

}  // namespace pagedinfer
