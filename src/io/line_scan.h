#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pagedinfer {

// Calls `take` with every complete line from `begin` on, its end included, and where it stands;
// until it says false. kLinePadding readable bytes follow the line. What a crash can leave
// behind the last record is no line: one without an end, and all from the first line on that
// holds a NUL byte. Returns where the complete lines end; 0 if there is no such file. Memory
// is that of the longest line. Throws Error when the file cannot be read.
int64_t scan_lines(const std::string& path, int64_t begin,
                   const std::function<bool(std::string_view line, int64_t place)>& take);

}  // namespace pagedinfer
