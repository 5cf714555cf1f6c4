#pragma once

#include <string>

namespace pagedinfer {

// What --version prints: the version on the first line, then what the program was built from and
// with, and the instruction sets of this machine.
std::string version_text();

}  // namespace pagedinfer
