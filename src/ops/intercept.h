#pragma once

#include <functional>
#include <memory>

#include "core/profile.h"
#include "ops/arithmetic.h"
#include "ops/op_work.h"

namespace pagedinfer {

// Callbacks around the operations of an Arithmetic.
struct Interceptor {
  // Called instead of each operation; `queue` queues the operation.
  std::function<void(const OpName&, const OpWork&, const std::function<void()>& queue)> around;
  // The keys of the current step for attention with this window. Without it the work of attention
  // is not counted.
  std::function<AttendedKeys(int window)> attended_keys = [](int) { return AttendedKeys(); };
};

// Returns an Arithmetic that passes each operation of `arithmetic` to the interceptor. REQUIRES:
// `arithmetic` outlives it.
std::unique_ptr<Arithmetic> intercept(Arithmetic& arithmetic, Interceptor interceptor);

}  // namespace pagedinfer
