#pragma once

#include "core/batch.h"
#include "sched/step_plan.h"

namespace pagedinfer {

// Flattens a plan into the arrays that the model reads. Whatever `batch` held is replaced; its
// memory is used again.
void build_batch(const StepPlan& plan, int block_size, Batch& batch);

}  // namespace pagedinfer
