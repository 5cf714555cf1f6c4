#pragma once

#include "io/standard_files.h"

namespace pagedinfer {

// Runs the command line and returns the exit code. `standard` says which streams "-" may name.
// Throws Error for an invalid command line, and if the command fails.
int run_command_line(int argc, const char* const* argv, StandardFiles standard);

}  // namespace pagedinfer
