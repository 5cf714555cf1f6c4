#pragma once

#include <doctest/doctest.h>

namespace pagedinfer {

// Whether this build has a sanitizer, which takes time and memory of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Whether this build has a sanitizer; if so, prints why the test cannot run with it.
inline bool is_skipped_when_sanitized(const char* reason) {
  if (kSanitized) MESSAGE("SKIPPED: " << reason);
  return kSanitized;
}

// A number of random runs: fewer with a sanitizer, which slows each of them down.
constexpr int scaled(int num_runs) { return kSanitized ? num_runs / 16 : num_runs; }

}  // namespace pagedinfer
