#pragma once

#include <simdjson.h>

namespace pagedinfer {

// Parses the files of a model directory, whose numbers have any size: Python writes them. An
// integer beyond 64 bits is a double. What no double can hold (1e999, NaN, Infinity, -Infinity) is
// the double of the largest magnitude, see is_beyond_double(). The element refers to `parser`.
[[nodiscard]] simdjson::simdjson_result<simdjson::dom::element> parse_model_json(
    simdjson::dom::parser& parser, const simdjson::padded_string& text);

// Whether it stands for a number that no double can hold. Every range of numbers excludes it.
bool is_beyond_double(simdjson::dom::element value);

}  // namespace pagedinfer
