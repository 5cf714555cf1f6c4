#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// Comparisons of parts of schemas and values, of all searches of a schema together. Some 100 ms.
constexpr int64_t kMaxComparisons = 1'000'000;

// Finds two schemas of a "oneOf" that one answer may match: then the answer is not valid. Schemas
// are told apart by their types, by constants, and by the properties that objects must or cannot
// have; of others it says that they overlap, also where `comparisons`, which it counts down, run
// out. An answer has only properties that its schema names, and among them that of the
// discriminator, `tag`, unless it is ""; but a schema lets other answers pass.
// REQUIRES: `root` and `schemas`, which stand in it, are what rewrite_schema() takes.
std::optional<std::pair<size_t, size_t>> find_overlap(
    simdjson::dom::element root, const std::vector<simdjson::dom::element>& schemas,
    std::string_view tag, int64_t& comparisons);

}  // namespace pagedinfer
