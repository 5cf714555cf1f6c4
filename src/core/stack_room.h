#pragma once

#include <functional>

namespace pagedinfer {

// Calls `work` where the stack has room for the deepest chat template and form, and gives as much
// to every thread that is started later, however little `ulimit -s` allows. Throws what `work`
// throws, and Error if that takes a thread that cannot start.
void with_stack_room(const std::function<void()>& work);

}  // namespace pagedinfer
