#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pagedinfer {

// The extent of the JSON value at the beginning of a text.
struct JsonExtent {
  // kWhole: a complete value. kCutOff: the text ends inside a value, or in a scalar that might
  // continue. kBroken: not JSON.
  enum class End : uint8_t { kWhole, kCutOff, kBroken } end;
  size_t size;  // bytes of the value, or of the longest prefix that can begin a value
};

// Checks brackets, commas, colons and strings only; any word passes as a scalar.
JsonExtent scan_json(std::string_view text);

}  // namespace pagedinfer
