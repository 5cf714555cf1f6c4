// Values that stand in a JSON schema, and the schemas that list them. Included by this folder only.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pagedinfer {

using Elements = std::vector<simdjson::dom::element>;

// The value of a key; nullopt if `object` is no object or does not have it.
std::optional<simdjson::dom::element> find_key(simdjson::dom::element object, std::string_view key);

// Whether two values are the same to JSON Schema: 1 is 1.0.
bool equal_values(simdjson::dom::element a, simdjson::dom::element b);

bool is_of_type(simdjson::dom::element value, std::string_view type);

// The values of "const" or "enum", without those that a type beside it excludes; nullopt if the
// schema has neither. REQUIRES: rewrite_schema() takes the schema
std::optional<Elements> listed_values(simdjson::dom::element schema);

constexpr int64_t kMaxLists = 326;  // all lists of up to five values

// The different values of a schema of strings, numbers, true, false and null that has only "enum"
// or "const" besides "type", "title" and "description", or refers to such a definition; nullopt if
// it is another schema, or there are more than kMaxLists.
std::optional<Elements> distinct_values(simdjson::dom::element root, simdjson::dom::element schema);

// All lists of `min` to `max` of the values, each value at most once; nullopt if there are more
// than kMaxLists.
std::optional<std::vector<Elements>> lists_without_repeats(const Elements& values, int64_t min,
                                                           int64_t max);

}  // namespace pagedinfer
