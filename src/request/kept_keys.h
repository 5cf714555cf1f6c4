#pragma once

#include <simdjson.h>

#include <span>
#include <string>
#include <string_view>

#include "request/request_parser.h"

namespace pagedinfer {

// The values of --keep. Each is "all", or keys with commas between them; spaces around a key are
// left out.
KeptKeys parse_kept_keys(std::span<const std::string> texts);

// The object with the kept keys that `line` has, in the order of the line, as JSON text. A repeated
// key has its last value. Keys and values are what the line has, byte for byte, without the space
// between tokens. "" if no keys are kept. REQUIRES: `line` is the JSON text of `object`.
std::string kept_members(std::string_view line, simdjson::dom::object object, const KeptKeys& keep);

}  // namespace pagedinfer
