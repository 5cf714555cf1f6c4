#pragma once

#include <simdjson.h>

namespace pagedinfer {

// Parses a JSON file of a model directory. Python writes these with numbers of any size: an integer
// beyond 64 bits becomes a double, and what no double can hold (1e999, NaN, Infinity, -Infinity)
// becomes the largest double of that sign, see is_beyond_double(). The element refers to `parser`.
[[nodiscard]] simdjson::simdjson_result<simdjson::dom::element> parse_model_json(
    simdjson::dom::parser& parser, const simdjson::padded_string& text);

// Whether `value` replaces a number that no double can hold. No range of numbers contains it.
bool is_beyond_double(simdjson::dom::element value);

}  // namespace pagedinfer
