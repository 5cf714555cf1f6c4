#pragma once

#include <cstdint>
#include <filesystem>

namespace pagedinfer {

// Bytes this process can still take: what the kernel calls available, or less where a memory
// control group (version 1 or 2) leaves less. `root` is "/" but in tests. Throws Error if
// proc/meminfo cannot be read.
int64_t available_memory(const std::filesystem::path& root);

}  // namespace pagedinfer
