#pragma once

#include <string>

namespace pagedinfer {

// The root of the source tree, and the program that this build made.
std::string source_dir();
std::string built_program();

}  // namespace pagedinfer
