#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// The properties that discriminators name, ascending: the answers of a oneOf have them where their
// schemas know them.
using SchemaTags = std::vector<std::string_view>;

// What holds for the schemas of an "anyOf", "oneOf" or "allOf", if `tags` hold for the schema that
// has it.
SchemaTags tags_within(simdjson::dom::element schema, SchemaTags tags);

// Comparisons of parts of schemas and values, of all searches of a schema together: 0.7 s or less.
constexpr int64_t kMaxComparisons = 2'000'000;

// Finds two schemas of a "oneOf" that one answer may match: then the answer is not valid. Schemas
// are told apart by their types, by constants, and by the properties that objects must or cannot
// have; of others it says that they overlap, also where `comparisons`, which it counts down, run
// out. An answer has only properties that its schema names, and of `tags` all that it
// names; but a schema lets other answers pass.
// REQUIRES: `root` and `schemas`, which stand in it, are what rewrite_schema() takes.
std::optional<std::pair<size_t, size_t>> find_overlap(
    simdjson::dom::element root, const std::vector<simdjson::dom::element>& schemas,
    const SchemaTags& tags, int64_t& comparisons);

}  // namespace pagedinfer
