#pragma once

#include <functional>

namespace pagedinfer {

// Calls task(i) for each i in [0, count) and waits for all. Tasks take tens of microseconds each,
// so several threads are started for many of them only. REQUIRES: a task does not throw.
void run_host_tasks(int count, const std::function<void(int)>& task);

}  // namespace pagedinfer
