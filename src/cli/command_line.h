#pragma once

namespace pagedinfer {

// Does what the command line asks for and returns the exit code. Throws Error when it asks for
// what is not there, or when that cannot go on.
int run_command_line(int argc, const char* const* argv);

}  // namespace pagedinfer
