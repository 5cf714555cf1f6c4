#pragma once

#include <string_view>

namespace pagedinfer {

// The commit that the program was built from, as `git describe --always --dirty` names it;
// "unknown" where the source was no checkout.
std::string_view build_commit();

}  // namespace pagedinfer
