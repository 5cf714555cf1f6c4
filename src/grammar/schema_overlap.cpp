#include "grammar/schema_overlap.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "grammar/schema_values.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

constexpr int kMaxDepth = 64;  // of references, properties and values within each other

Elements items_of(dom::element list) {
  const dom::array array = list;
  return {array.begin(), array.end()};
}

// As "type" says; empty if it is absent.
std::vector<std::string_view> types_of(dom::element schema) {
  const auto type = find_key(schema, "type");
  if (!type) return {};
  if (type->is_string()) return {std::string_view(*type)};
  std::vector<std::string_view> types;
  for (const dom::element item : items_of(*type)) types.emplace_back(item);
  return types;
}

Elements required_by(dom::element schema) {
  const auto required = find_key(schema, "required");
  return required ? items_of(*required) : Elements{};
}

std::optional<dom::element> property(dom::element schema, std::string_view name) {
  const auto properties = find_key(schema, "properties");
  return properties ? find_key(*properties, name) : std::nullopt;
}

bool forbids_more(dom::element schema) {
  const auto more = find_key(schema, "additionalProperties");
  return more && more->is_bool() && !bool(*more);
}

class Search {
 public:
  Search(dom::element root, int64_t& comparisons) : root_(root), comparisons_(comparisons) {}

  // Whether an answer that has the form of one schema may match the other one too.
  bool overlap(dom::element answer, const SchemaTags& tags, dom::element other, int depth = 0) {
    if (is_over(depth)) return true;
    if (const auto parts = alternatives_of(answer)) {
      const SchemaTags inner = refers_to_root(answer) ? SchemaTags() : tags_within(answer, tags);
      return std::ranges::any_of(
          *parts, [&](dom::element x) { return overlap(x, inner, other, depth + 1); });
    }
    if (const auto parts = alternatives_of(other)) {
      return std::ranges::any_of(
          *parts, [&](dom::element x) { return overlap(answer, tags, x, depth + 1); });
    }
    if (const auto values = listed_values(answer)) return any_matches(*values, other, depth);
    if (const auto values = listed_values(other)) return any_matches(*values, answer, depth);
    return typed_overlap(answer, tags, other, depth);
  }

 private:
  bool is_over(int depth) { return --comparisons_ < 0 || depth > kMaxDepth; }

  // The schemas that a value must match one of; nullopt if it says itself what matches.
  std::optional<Elements> alternatives_of(dom::element schema) const {
    if (const auto target = find_key(schema, "$ref")) {
      return Elements{root_.at_pointer(std::string(std::string_view(*target).substr(1)))};
    }
    for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
      if (const auto parts = find_key(schema, keyword)) return items_of(*parts);
    }
    return std::nullopt;
  }

  // The root keeps its form behind a reference to it.
  static bool refers_to_root(dom::element schema) {
    const auto target = find_key(schema, "$ref");
    return target && std::string_view(*target) == "#";
  }

  bool any_matches(const Elements& values, dom::element schema, int depth) {
    return std::ranges::any_of(
        values, [&](dom::element value) { return may_match(value, schema, depth + 1); });
  }

  bool may_match(dom::element value, dom::element schema, int depth) {
    if (is_over(depth)) return true;
    if (const auto parts = alternatives_of(schema)) {
      return std::ranges::any_of(*parts,
                                 [&](dom::element x) { return may_match(value, x, depth + 1); });
    }
    if (const auto values = listed_values(schema)) {
      comparisons_ -= std::ssize(*values);
      return std::ranges::any_of(*values, [&](dom::element x) { return equal_values(value, x); });
    }
    const auto types = types_of(schema);
    const auto is_its_type = [&](std::string_view type) { return is_of_type(value, type); };
    if (!types.empty() && std::ranges::none_of(types, is_its_type)) return false;
    if (!value.is_object()) return true;
    for (const dom::element name : required_by(schema)) {
      if (!find_key(value, std::string_view(name))) return false;
    }
    return std::ranges::all_of(dom::object(value), [&](const auto& field) {
      const auto inner = property(schema, field.key);
      return inner ? may_match(field.value, *inner, depth + 1) : !forbids_more(schema);
    });
  }

  bool typed_overlap(dom::element answer, const SchemaTags& tags, dom::element other, int depth) {
    std::vector<std::string_view> types = types_of(answer);
    const bool is_object = std::ranges::any_of(
        std::array{"properties", "required", "additionalProperties"},
        [&](std::string_view keyword) { return find_key(answer, keyword).has_value(); });
    // An answer is of the type that its keywords are about; a schema lets other types pass.
    if (types.empty() && is_object) types = {"object"};
    const std::vector<std::string_view> others = types_of(other);
    if (types.empty() || (others.empty() && types != std::vector<std::string_view>{"object"})) {
      return true;
    }
    const auto is_numeric = [](std::string_view type) {
      return type == "integer" || type == "number";
    };
    bool share_object = others.empty();
    for (const std::string_view type : types) {
      for (const std::string_view other_type : others) {
        if (type != other_type && !(is_numeric(type) && is_numeric(other_type))) continue;
        if (type != "object") return true;
        share_object = true;
      }
    }
    return share_object && objects_overlap(answer, tags, other, depth);
  }

  bool objects_overlap(dom::element answer, const SchemaTags& tags, dom::element other, int depth) {
    std::vector<std::string_view> names;  // that an answer has if it matches both
    for (const std::string_view tag : tags) {
      if (property(answer, tag)) names.push_back(tag);
    }
    for (const dom::element schema : {answer, other}) {
      for (const dom::element name : required_by(schema)) names.emplace_back(name);
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    const bool is_closed = find_key(answer, "properties") || forbids_more(answer);
    return std::ranges::all_of(names, [&](std::string_view name) {
      const auto of_answer = property(answer, name), of_other = property(other, name);
      if (of_answer && of_other) return overlap(*of_answer, {}, *of_other, depth + 1);
      return of_answer ? !forbids_more(other) : !is_closed;
    });
  }

  const dom::element root_;
  int64_t& comparisons_;
};

}  // namespace

SchemaTags tags_within(dom::element schema, SchemaTags tags) {
  const auto discriminator = find_key(schema, "discriminator");
  const auto name = discriminator ? find_key(*discriminator, "propertyName") : std::nullopt;
  if (!name || !name->is_string()) return tags;
  const std::string_view tag(*name);
  const auto place = std::ranges::lower_bound(tags, tag);
  if (place == tags.end() || *place != tag) tags.insert(place, tag);
  return tags;
}

std::optional<std::pair<size_t, size_t>> find_overlap(dom::element root, const Elements& schemas,
                                                      const SchemaTags& tags,
                                                      int64_t& comparisons) {
  Search search(root, comparisons);
  for (size_t i = 0; i < schemas.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (search.overlap(schemas[i], tags, schemas[j]) ||
          search.overlap(schemas[j], tags, schemas[i])) {
        return std::pair(j, i);
      }
    }
  }
  return std::nullopt;
}

}  // namespace pagedinfer
