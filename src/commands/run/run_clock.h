#pragma once

#include <chrono>
#include <functional>

namespace pagedinfer {

// Seconds since this call.
inline std::function<double()> clock_from_now() {
  using Clock = std::chrono::steady_clock;
  return [begin = Clock::now()] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
}

}  // namespace pagedinfer
