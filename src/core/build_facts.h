#pragma once

#include <string_view>

namespace pagedinfer {

// The commit that the program was built from, as `git describe --always --dirty` names it;
// "unknown" if the source was not a checkout.
std::string_view build_commit();

// What the program is and was built with; CMake knows.
struct BuildFacts {
  std::string_view version;    // of the program
  std::string_view compiler;   // name and version
  std::string_view cuda;       // version of the toolkit and architectures; "none"
  std::string_view libraries;  // names and versions
};

BuildFacts build_facts();

}  // namespace pagedinfer
