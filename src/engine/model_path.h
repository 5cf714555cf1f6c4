#pragma once

#include <string>

namespace pagedinfer {

// The directory that --model names: itself, or the bundled model of that short name, which
// lies in datasets/ or datasets/configs/ of the source tree or in share/pagedinfer/ of an installation, both found
// from the program's own path. Throws Error with the places looked at.
std::string find_model(const std::string& name, const std::string& program_path);

// Of the running program.
std::string program_path();

}  // namespace pagedinfer
