#pragma once

#include <cstdint>
#include <filesystem>

namespace pagedinfer {

// The limits of this process in bytes.
struct ProcessLimits {
  int64_t addresses = INT64_MAX;  // ulimit -v
  int64_t data = INT64_MAX;       // ulimit -d
};
ProcessLimits process_limits();

// If the address space is limited (ulimit -v), limits the number of malloc's arenas: each one
// reserves far more address space than it uses. Without this malloc may make an arena for every
// thread. REQUIRES: no other thread has been started.
void limit_heaps(const ProcessLimits& limits = process_limits());

// Bytes that malloc has given out so far.
int64_t allocated_bytes();

// Bytes that this process can still allocate: the minimum of what the kernel calls available, and
// what memory control groups (version 1 or 2), the limits of the process and strict overcommit
// allow. Under the limits of the process it subtracts `num_more_threads` threads. `root` is "/"
// except in tests. Throws Error if proc/meminfo cannot be read.
int64_t available_memory(const std::filesystem::path& root,
                         const ProcessLimits& limits = process_limits(), int num_more_threads = 0);

}  // namespace pagedinfer
