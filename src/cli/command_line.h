#pragma once

#include "cli/standard_files.h"

namespace pagedinfer {

// Does what the command line asks for and returns the exit code; `standard` is what "-" can name.
// Throws Error when it asks for what is not there, or when that cannot go on.
int run_command_line(int argc, const char* const* argv, StandardFiles standard);

}  // namespace pagedinfer
