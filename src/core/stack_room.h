#pragma once

#include <functional>

namespace pagedinfer {

// Calls `work` with a stack that has room for the deepest chat template and form, even if `ulimit
// -s` allows less. If the default is too small, `work` runs in a thread of its own, and all threads
// that start later get a stack of that size. Throws what `work` throws, and Error if that thread
// cannot start.
void with_stack_room(const std::function<void()>& work);

}  // namespace pagedinfer
