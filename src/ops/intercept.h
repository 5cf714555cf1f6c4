#pragma once

#include <functional>
#include <memory>

#include "core/profile.h"
#include "ops/arithmetic.h"
#include "ops/op_work.h"

namespace pagedinfer {

// Stands between a caller and an Arithmetic.
struct Interceptor {
  // Called in place of every operation, which `queue` queues.
  std::function<void(const OpName&, const OpWork&, const std::function<void()>& queue)> around;
  // Of the step in hand, by attention's window. Needed by who looks at the work of attention.
  std::function<AttendedKeys(int window)> attended_keys = [](int) { return AttendedKeys(); };
};

// `arithmetic`, each of its operations handed to the interceptor. REQUIRES: `arithmetic` outlives
// what is returned.
std::unique_ptr<Arithmetic> intercept(Arithmetic& arithmetic, Interceptor interceptor);

}  // namespace pagedinfer
