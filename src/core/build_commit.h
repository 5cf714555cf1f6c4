#pragma once

#include <string_view>

namespace pagedinfer {

// The commit that the program was built from, as `git describe --always --dirty` names it;
// "unknown" if the source was not a checkout.
std::string_view build_commit();

}  // namespace pagedinfer
