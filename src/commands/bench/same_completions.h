#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pagedinfer {

// The first line in which two files differ, from 1; nullopt if they have the same bytes. Throws
// Error if one cannot be read.
std::optional<int64_t> first_difference(const std::string& a, const std::string& b);

}  // namespace pagedinfer
