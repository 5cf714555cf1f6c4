#pragma once

#include <cstdint>
#include <filesystem>

namespace pagedinfer {

// What this process may have at most, in bytes.
struct ProcessLimits {
  int64_t addresses = INT64_MAX;  // ulimit -v
  int64_t data = INT64_MAX;       // ulimit -d
};
ProcessLimits process_limits();

// Where addresses are limited malloc's heaps, of which every thread has one, are too: they take
// many more addresses than memory. To be called before there are threads.
void limit_heaps(const ProcessLimits& limits = process_limits());

// Bytes this process can still take: what the kernel calls available, or less where a memory
// control group (version 1 or 2), a limit of the process or a kernel that promises no more than
// it has leaves less. Of what the process may have so many more threads, and what a run allocates
// beside its plan, are taken away. `root` is "/" but in tests. Throws Error if proc/meminfo cannot
// be read.
int64_t available_memory(const std::filesystem::path& root,
                         const ProcessLimits& limits = process_limits(), int num_more_threads = 0);

}  // namespace pagedinfer
