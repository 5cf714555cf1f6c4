#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pagedinfer {

// How far the JSON value goes that a text begins with.
struct JsonExtent {
  enum class End : uint8_t { kWhole, kCutOff, kBroken } end;
  size_t size;  // of the value if it is whole, else how far the text is the beginning of one
};

// Looks at brackets, commas, colons and strings; a scalar may be any word. A text that ends inside
// a value, or in a scalar that may go on, is cut off.
JsonExtent scan_json(std::string_view text);

}  // namespace pagedinfer
