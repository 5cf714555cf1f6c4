#pragma once

#include <string>

namespace pagedinfer {

// Where this build came from and what it made.
std::string source_dir();
std::string built_program();

}  // namespace pagedinfer
