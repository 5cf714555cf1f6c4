#include "core/stack_room.h"

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <thread>

#include "core/start_thread.h"

namespace pagedinfer {
namespace {

// A template of macros that call each other overflows 512 KiB before it is refused.
constexpr size_t kStackBytes = 2 << 20;

}  // namespace

void with_stack_room(const std::function<void()>& work) {
  pthread_attr_t attributes;
  size_t bytes = 0;
  const bool is_known = pthread_getattr_default_np(&attributes) == 0 &&
                        pthread_attr_getstacksize(&attributes, &bytes) == 0;
  if (!is_known || bytes >= kStackBytes) return work();
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_setattr_default_np(&attributes);
  std::exception_ptr failure;
  start_thread("has the stack that ulimit -s does not allow", [&] {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pagedinfer
