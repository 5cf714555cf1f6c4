#pragma once

#include <string>

namespace pagedinfer {

// The home directory of the user who runs the program, from the system's list of users; "" if there
// is none.
std::string home_folder();

}  // namespace pagedinfer
