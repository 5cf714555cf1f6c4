#pragma once

#include <string>

#include "io/open_file.h"

namespace pagedinfer {

// Where `path` names a pipe, waits until somebody reads it or `stop_fd` becomes readable. What it
// returns keeps the pipe open: to open it for writing does not wait then.
[[nodiscard]] OpenFile wait_for_reader(const std::string& path, int stop_fd);

}  // namespace pagedinfer
