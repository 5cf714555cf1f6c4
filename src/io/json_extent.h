#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

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

// A key and a value of an object, as JSON text.
struct JsonMember {
  std::string_view key, value;
};

// The members of an object in their order. REQUIRES: `json` is a JSON object without space between
// its tokens.
std::vector<JsonMember> json_members(std::string_view json);

}  // namespace pagedinfer
