#pragma once

#include <string>

#include "io/open_file.h"

namespace pagedinfer {

// Where `path` names a pipe, waits until somebody reads it or `stop_fd` becomes readable, and
// returns the pipe, open for writing. It is to be written with what this returns: whoever opens it
// once more waits for another reader if that one has gone.
[[nodiscard]] OpenFile wait_for_reader(const std::string& path, int stop_fd);

}  // namespace pagedinfer
