#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pagedinfer {

// Calls `take` with each complete line from byte `begin` on, \n included, and its offset in the
// file, until `take` returns false. kLinePadding readable bytes follow the line. Stops before the
// remains of a crash: a line without \n, or a line that holds a NUL byte. Returns the offset after
// the last line taken; 0 if there is no such file. Holds one line in memory at a time. Throws Error
// if the file cannot be read.
int64_t scan_lines(const std::string& path, int64_t begin,
                   const std::function<bool(std::string_view line, int64_t offset)>& take);

}  // namespace pagedinfer
