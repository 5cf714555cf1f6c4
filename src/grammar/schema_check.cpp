#include "grammar/schema_check.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/json.h"
#include "grammar/regex_check.h"
#include "grammar/schema_overlap.h"
#include "grammar/schema_values.h"
#include "grammar/string_formats.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// What a keyword is about: one type, all, or nothing that an answer could violate.
enum class About : uint8_t { kNote, kRoot, kObject, kArray, kString, kNumber, kAll };

struct Keyword {
  std::string_view name;
  About about;
};

constexpr std::array kKeywords = {
    Keyword{"$comment", About::kNote},
    Keyword{"$schema", About::kNote},
    Keyword{"default", About::kNote},
    Keyword{"deprecated", About::kNote},
    Keyword{"description", About::kNote},
    Keyword{"discriminator", About::kNote},
    Keyword{"example", About::kNote},
    Keyword{"examples", About::kNote},
    Keyword{"readOnly", About::kNote},
    Keyword{"title", About::kNote},
    Keyword{"writeOnly", About::kNote},
    Keyword{"$defs", About::kRoot},
    Keyword{"$id", About::kRoot},
    Keyword{"definitions", About::kRoot},
    Keyword{"additionalProperties", About::kObject},
    Keyword{"properties", About::kObject},
    Keyword{"required", About::kObject},
    Keyword{"items", About::kArray},
    Keyword{"maxItems", About::kArray},
    Keyword{"minItems", About::kArray},
    Keyword{"prefixItems", About::kArray},
    Keyword{"uniqueItems", About::kArray},
    Keyword{"format", About::kString},
    Keyword{"maxLength", About::kString},
    Keyword{"minLength", About::kString},
    Keyword{"pattern", About::kString},
    Keyword{"exclusiveMaximum", About::kNumber},
    Keyword{"exclusiveMinimum", About::kNumber},
    Keyword{"maximum", About::kNumber},
    Keyword{"minimum", About::kNumber},
    Keyword{"multipleOf", About::kNumber},
    Keyword{"$ref", About::kAll},
    Keyword{"allOf", About::kAll},
    Keyword{"anyOf", About::kAll},
    Keyword{"const", About::kAll},
    Keyword{"enum", About::kAll},
    Keyword{"oneOf", About::kAll},
    Keyword{"type", About::kAll},
};

constexpr std::array kTypes = {"array", "boolean", "integer", "null", "number", "object", "string"};

About about_of_type(std::string_view type) {
  return type == "object"                        ? About::kObject
         : type == "array"                       ? About::kArray
         : type == "string"                      ? About::kString
         : type == "integer" || type == "number" ? About::kNumber
                                                 : About::kAll;
}

using Fields = std::map<std::string_view, dom::element>;

// Whether "uniqueItems" is there and is not false.
bool asks_unique(const Fields& fields) {
  const auto unique = fields.find("uniqueItems");
  bool on = true;
  return unique != fields.end() && (unique->second.get(on) != simdjson::SUCCESS || on);
}

class SchemaWriter {
 public:
  explicit SchemaWriter(dom::element root) : root_(root) {}

  Result<RewrittenSchema> write() {
    if (document()) return std::move(out_);
    return *std::move(error_);
  }

 private:
  // Where the walk is: its path for messages, and how it got there.
  struct Place {
    std::string path;
    int depth = 0;
    bool is_same_value = true;  // as the definition's: no property or item lies in between
    SchemaTags tags = {};       // of the discriminators around the value
    Place within(std::string_view keyword, bool same = true) const {
      return {fmt::format("{}/{}", path, keyword), depth + 1, is_same_value && same,
              same ? tags : SchemaTags()};
    }
  };

  // Each sets the error, unless there is one, and returns false.
  bool refuse(const Place& place, std::string_view keyword, std::string_view what) {
    return fail(RequestError{"unsupported_schema", at(place, keyword, what)});
  }
  bool fail_value(const Place& place, std::string_view keyword, std::string_view expected) {
    return fail_form(place, keyword, fmt::format("expected {}", expected));
  }
  bool fail_form(const Place& place, std::string_view keyword, std::string_view what) {
    return fail(RequestError{"invalid_form", at(place, keyword, what)});
  }
  bool fail(RequestError error) {
    if (!error_) error_ = std::move(error);
    return false;
  }
  static std::string at(const Place& place, std::string_view keyword, std::string_view what) {
    return fmt::format("{}{}{}: {}", place.path, keyword.empty() ? "" : "/", keyword, what);
  }

  bool document();
  bool schema(dom::element value, const Place& place);
  bool write_schema(dom::element value, const Place& place);
  bool read_fields(dom::object object, const Place& place, Fields& fields);
  bool only(const Fields& fields, const Place& place, std::string_view keyword,
            std::initializer_list<std::string_view> beside);
  bool reference(const Fields& fields, const Place& place);
  bool alternatives(const Fields& fields, const Place& place, std::string_view keyword);
  bool constants(const Fields& fields, const Place& place, std::string_view keyword);
  bool constant(dom::element value, const Place& place);
  bool typed(const Fields& fields, const Place& place);
  bool of_type(std::string_view type, const Fields& fields, const Place& place);
  bool object(const Fields& fields, const Place& place);
  bool array(const Fields& fields, const Place& place);
  bool unique_array(const Fields& fields, const Place& place);
  bool string(const Fields& fields, const Place& place);
  bool number(std::string_view type, const Fields& fields, const Place& place);
  bool count(const Fields& fields, const Place& place, std::string_view keyword,
             std::optional<int64_t>& result);
  void find_annotation_names(dom::element value, bool are_names, bool in_constant);
  bool check_definitions();
  void mark();
  bool check_circles();
  bool check_one_ofs();

  dom::element root_;
  RewrittenSchema out_;
  JsonWriter json_{out_.text};
  std::optional<RequestError> error_;
  // The definitions that are referred to, in the order in which they are met; their places there
  // are their names in the output. One has several if discriminators stand around it.
  using Definition = std::pair<std::string, SchemaTags>;  // "$defs/NAME" or "definitions/NAME"
  std::vector<Definition> definitions_;
  std::map<Definition, int> numbers_;
  // Of the root (0) and each definition (from 1): those that its own value must match.
  std::vector<std::vector<int>> same_value_;
  int current_ = 0;
  std::vector<std::pair<Place, std::vector<dom::element>>> one_ofs_;
  // The library takes two schemas for one that differ only in what stands below a key that is the
  // name of an annotation, also where this is the name of a property. Then each gets a mark.
  bool needs_marks_ = false;
  int num_marks_ = 0;
};

bool SchemaWriter::document() {
  const Place root = {.path = "#"};
  find_annotation_names(root_, false, false);
  same_value_.emplace_back();
  json_.begin_object();
  // The root is a reference too: its own keywords and the definitions then cannot clash.
  json_.key("$ref").value("#/$defs/0").key("$defs").begin_object().key("0");
  if (!check_definitions() || !schema(root_, root)) return false;
  for (size_t i = 0; i < definitions_.size(); ++i) {
    current_ = static_cast<int>(i) + 1;
    const auto [name, tags] = definitions_[i];
    dom::element value;
    if (root_.at_pointer("/" + name).get(value) != simdjson::SUCCESS) {
      return fail_value(root, name, "a definition");
    }
    json_.key(fmt::format("{}", i + 1));
    if (!schema(value, {.path = "#/" + name, .tags = tags})) return false;
    if (out_.text.size() > kMaxRewrittenBytes) {
      return fail_form(root, "",
                       fmt::format("with a definition for each discriminator around it, the "
                                   "schema is longer than {} bytes",
                                   kMaxRewrittenBytes));
    }
  }
  json_.end_object().end_object();
  return check_circles() && check_one_ofs();
}

// A reference finds the first of a name, and Python the last.
bool SchemaWriter::check_definitions() {
  for (const std::string_view key : {"$defs", "definitions"}) {
    dom::object map;
    if (root_[key].get(map) != simdjson::SUCCESS) continue;
    std::set<std::string_view> names;
    for (const auto [name, value] : map) {
      if (names.insert(name).second) continue;
      return refuse({.path = fmt::format("#/{}", key)}, name, "stands there twice");
    }
  }
  return true;
}

// `are_names`: the keys of `value` name properties; `in_constant`: so do all keys below.
void SchemaWriter::find_annotation_names(dom::element value, bool are_names, bool in_constant) {
  if (value.is_array()) {
    for (const dom::element item : dom::array(value)) {
      find_annotation_names(item, are_names, in_constant);
    }
  } else if (value.is_object()) {
    for (const auto [name, item] : dom::object(value)) {
      const auto* const known = std::ranges::find(kKeywords, name, &Keyword::name);
      const bool is_note = known != kKeywords.end() && known->about == About::kNote;
      needs_marks_ = needs_marks_ || (is_note && are_names);
      const bool constant = in_constant || (!are_names && (name == "const" || name == "enum"));
      find_annotation_names(item, constant || name == "properties", constant);
    }
  }
}

void SchemaWriter::mark() {
  if (needs_marks_) json_.field("x-mark", ++num_marks_);
}

bool SchemaWriter::schema(dom::element value, const Place& place) {
  const size_t begin = out_.text.size();
  if (!write_schema(value, place)) return false;
  const size_t comma = out_.text[begin] == ',' ? 1 : 0;
  out_.parts.push_back({place.path, current_, begin + comma, out_.text.size()});
  return true;
}

bool SchemaWriter::write_schema(dom::element value, const Place& place) {
  bool any = false;
  if (value.get(any) == simdjson::SUCCESS) {
    if (!any) return refuse(place, "", "false, which nothing matches");
    json_.begin_object().end_object();
    return true;
  }
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return fail_value(place, "", "a schema");
  if (place.depth > kMaxSchemaDepth) {
    return fail_form(place, "",
                     fmt::format("schemas are nested deeper than {} levels", kMaxSchemaDepth));
  }
  Fields fields;
  if (!read_fields(object, place, fields)) return false;
  if (fields.contains("$ref")) return reference(fields, place);
  for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
    if (!fields.contains(keyword)) continue;
    Place tagged = place;
    tagged.tags = tags_within(value, place.tags);
    if (std::ssize(tagged.tags) > kMaxTags) {
      return fail_form(place, "discriminator",
                       fmt::format("more than {} stand around a value", kMaxTags));
    }
    return alternatives(fields, tagged, keyword);
  }
  for (const std::string_view keyword : {"const", "enum"}) {
    if (fields.contains(keyword)) return constants(fields, place, keyword);
  }
  return typed(fields, place);
}

// All but annotations.
bool SchemaWriter::read_fields(dom::object object, const Place& place, Fields& fields) {
  std::set<std::string_view> names;
  for (const auto [name, value] : object) {
    const auto* const known = std::ranges::find(kKeywords, name, &Keyword::name);
    const bool is_root = place.path == "#";
    if (known == kKeywords.end() || (known->about == About::kRoot && !is_root)) {
      return refuse(place, name, "this keyword is not supported");
    }
    if (!names.insert(name).second) return refuse(place, name, "stands there twice");
    if (known->about > About::kRoot) fields.emplace(name, value);
  }
  return true;
}

// Whether no keyword stands beside `keyword` but annotations and those of `beside`.
bool SchemaWriter::only(const Fields& fields, const Place& place, std::string_view keyword,
                        std::initializer_list<std::string_view> beside) {
  for (const auto& [name, value] : fields) {
    if (name == keyword || std::ranges::find(beside, name) != beside.end()) continue;
    return refuse(place, name, fmt::format("is not supported beside {}", keyword));
  }
  return true;
}

bool SchemaWriter::reference(const Fields& fields, const Place& place) {
  if (!only(fields, place, "$ref", {})) return false;
  std::string_view target;
  if (fields.at("$ref").get(target) != simdjson::SUCCESS) {
    return fail_value(place, "$ref", "a string");
  }
  int number = 0;
  if (target != "#") {
    const std::string_view name = target.substr(std::min<size_t>(2, target.size()));
    const size_t slash = name.find('/');
    const bool is_definition =
        target.starts_with("#/") && slash != std::string_view::npos &&
        (name.substr(0, slash) == "$defs" || name.substr(0, slash) == "definitions") &&
        name.find_first_of("/~%", slash + 1) == std::string_view::npos;
    if (!is_definition) {
      return refuse(place, "$ref",
                    "is supported for \"#\", \"#/$defs/NAME\" and \"#/definitions/NAME\" only");
    }
    const Definition definition = {std::string(name), place.tags};
    const auto [found, is_new] =
        numbers_.try_emplace(definition, static_cast<int>(definitions_.size()) + 1);
    number = found->second;
    if (is_new) {
      definitions_.push_back(definition);
      same_value_.emplace_back();
    }
  }
  if (place.is_same_value) same_value_[static_cast<size_t>(current_)].push_back(number);
  json_.begin_object().field("$ref", fmt::format("#/$defs/{}", number)).end_object();
  return true;
}

bool SchemaWriter::alternatives(const Fields& fields, const Place& place,
                                std::string_view keyword) {
  if (!only(fields, place, keyword, {})) return false;
  dom::array schemas;
  if (fields.at(keyword).get(schemas) != simdjson::SUCCESS || schemas.size() == 0) {
    return fail_value(place, keyword, "a list of schemas");
  }
  if (keyword == "oneOf") one_ofs_.emplace_back(place, std::vector(schemas.begin(), schemas.end()));
  if (keyword == "allOf") {
    if (schemas.size() > 1) return refuse(place, keyword, "is supported with one schema only");
    return schema(schemas.at(0), place.within("allOf/0"));
  }
  json_.begin_object().key("anyOf").begin_array();
  int number = 0;
  for (const dom::element item : schemas) {
    if (!schema(item, place.within(fmt::format("{}/{}", keyword, number++)))) return false;
  }
  json_.end_array().end_object();
  return true;
}

bool SchemaWriter::constants(const Fields& fields, const Place& place, std::string_view keyword) {
  if (!only(fields, place, keyword, {"type"})) return false;
  std::vector<dom::element> values;
  if (keyword == "const") {
    values.push_back(fields.at(keyword));
  } else {
    dom::array all;
    if (fields.at(keyword).get(all) != simdjson::SUCCESS || all.size() == 0) {
      return fail_value(place, keyword, "a list of values");
    }
    for (const dom::element value : all) values.push_back(value);
  }
  if (fields.contains("type")) {
    std::string_view type;
    if (fields.at("type").get(type) != simdjson::SUCCESS) {
      return refuse(place, "type",
                    fmt::format("a list of types is not supported beside {}", keyword));
    }
    std::erase_if(values, [&](dom::element value) { return !is_of_type(value, type); });
    if (values.empty()) return refuse(place, keyword, "has no value of its type");
  }
  json_.begin_object().key("enum").begin_array();
  for (const dom::element value : values) {
    if (!constant(value, place.within(keyword))) return false;
  }
  json_.end_array();
  mark();
  json_.end_object();
  return true;
}

bool SchemaWriter::constant(dom::element value, const Place& place) {
  if (place.depth > kMaxSchemaDepth) {
    return fail_form(place, "",
                     fmt::format("values are nested deeper than {} levels", kMaxSchemaDepth));
  }
  const Place inside = {place.path, place.depth + 1, false};
  if (value.is_array()) {
    json_.begin_array();
    for (const dom::element item : dom::array(value)) {
      if (!constant(item, inside)) return false;
    }
    json_.end_array();
    return true;
  }
  if (value.is_object()) {
    json_.begin_object();
    std::set<std::string_view> names;
    for (const auto [name, item] : dom::object(value)) {
      if (!names.insert(name).second) return refuse(place, name, "stands there twice");
      json_.key(name);
      if (!constant(item, inside)) return false;
    }
    json_.end_object();
    return true;
  }
  if (value.type() == dom::element_type::UINT64) {
    return refuse(place, "", "an integer of 64 bits and more");
  }
  json_.raw(simdjson::minify(value));
  return true;
}

// A type, several, or the one that the keywords are about.
bool SchemaWriter::typed(const Fields& fields, const Place& place) {
  std::vector<std::string_view> types;
  const auto add = [&](dom::element value) {
    std::string_view type;
    if (value.get(type) != simdjson::SUCCESS || std::ranges::find(kTypes, type) == kTypes.end()) {
      return fail_value(place, "type", "one of the seven types of JSON, or a list of them");
    }
    types.push_back(type);
    return true;
  };
  const auto given = fields.find("type");
  if (given == fields.end()) {
    std::set<About> about;
    for (const auto& [name, value] : fields) {
      about.insert(std::ranges::find(kKeywords, name, &Keyword::name)->about);
    }
    if (about.empty()) {
      json_.begin_object().end_object();
      return true;
    }
    if (about.size() > 1) return refuse(place, "type", "is missing; keywords of several types");
    types = {about.contains(About::kObject)   ? "object"
             : about.contains(About::kArray)  ? "array"
             : about.contains(About::kString) ? "string"
                                              : "number"};
  } else if (dom::array list; given->second.get(list) == simdjson::SUCCESS) {
    for (const dom::element type : list) {
      if (!add(type)) return false;
    }
    if (types.empty()) return fail_value(place, "type", "a list that is not empty");
  } else if (!add(given->second)) {
    return false;
  }
  if (types.size() == 1) return of_type(types[0], fields, place);
  json_.begin_object().key("anyOf").begin_array();
  for (const std::string_view type : types) {
    if (!of_type(type, fields, place)) return false;
  }
  json_.end_array().end_object();
  return true;
}

// Keywords about other types have no effect.
bool SchemaWriter::of_type(std::string_view type, const Fields& fields, const Place& place) {
  Fields own;
  for (const auto& [name, value] : fields) {
    const About about = std::ranges::find(kKeywords, name, &Keyword::name)->about;
    if (name != "type" && about == about_of_type(type)) own.emplace(name, value);
  }
  if (type == "array" && asks_unique(own)) return unique_array(own, place);
  json_.begin_object().field("type", type);
  const bool done = type == "object"                        ? object(own, place)
                    : type == "array"                       ? array(own, place)
                    : type == "string"                      ? string(own, place)
                    : type == "integer" || type == "number" ? number(type, own, place)
                                                            : true;
  json_.end_object();
  return done;
}

bool SchemaWriter::object(const Fields& fields, const Place& place) {
  const auto properties = fields.find("properties");
  const auto additional = fields.find("additionalProperties");
  bool allowed = properties == fields.end();
  const bool is_flag =
      additional != fields.end() && additional->second.get(allowed) == simdjson::SUCCESS;
  if (properties != fields.end() && additional != fields.end()) {
    // Answers have the named properties only. A schema of further properties allows such answers.
    if (!is_flag && !additional->second.is_object()) {
      return fail_value(place, "additionalProperties", "a schema");
    }
    dom::object map;
    const bool has_none = properties->second.get(map) == simdjson::SUCCESS && map.size() == 0;
    if (has_none && (!is_flag || allowed)) {
      return refuse(place, "additionalProperties", "is not supported beside empty properties");
    }
    allowed = false;
  }
  json_.key("additionalProperties");
  if (additional == fields.end() || properties != fields.end() || is_flag) {
    json_.value(allowed);
  } else if (!schema(additional->second, place.within("additionalProperties", false))) {
    return false;
  }
  std::set<std::string_view> names;
  if (properties != fields.end()) {
    dom::object map;
    if (properties->second.get(map) != simdjson::SUCCESS) {
      return fail_value(place, "properties", "an object of schemas");
    }
    json_.key("properties").begin_object();
    for (const auto [name, value] : map) {
      const Place inside = place.within(fmt::format("properties/{}", name), false);
      if (!names.insert(name).second) return refuse(inside, "", "stands there twice");
      json_.key(name);
      if (!schema(value, inside)) return false;
    }
    json_.end_object();
  }
  std::set<std::string_view> optional = names;
  const auto required = fields.find("required");
  SchemaTags tags = place.tags;
  std::erase_if(tags, [&](std::string_view tag) { return !names.contains(tag); });
  if (required != fields.end() || !tags.empty()) json_.key("required").begin_array();
  for (const std::string_view tag : tags) {
    json_.value(tag);
    optional.erase(tag);
  }
  if (required != fields.end()) {
    dom::array list;
    if (required->second.get(list) != simdjson::SUCCESS) {
      return fail_value(place, "required", "a list of names");
    }
    for (const dom::element item : list) {
      std::string_view name;
      if (item.get(name) != simdjson::SUCCESS) return fail_value(place, "required", "names");
      if (!names.contains(name)) {
        return refuse(place, "required",
                      fmt::format("names '{}', which is not among the properties", name));
      }
      if (std::ranges::find(tags, name) == tags.end()) json_.value(name);
      optional.erase(name);
    }
  }
  if (required != fields.end() || !tags.empty()) json_.end_array();
  if (std::ssize(optional) > kMaxOptional) {
    return fail_form(place, "properties",
                     fmt::format("more than {} of them are not required", kMaxOptional));
  }
  mark();
  return true;
}

bool SchemaWriter::count(const Fields& fields, const Place& place, std::string_view keyword,
                         std::optional<int64_t>& result) {
  const auto found = fields.find(keyword);
  if (found == fields.end()) return true;
  double number = 0;
  if (found->second.get(number) != simdjson::SUCCESS || number < 0 ||
      number != std::floor(number)) {
    return fail_value(place, keyword, "an integer from 0");
  }
  if (number > static_cast<double>(kMaxCounted)) {
    return fail_form(place, keyword, fmt::format("is above {}", kMaxCounted));
  }
  result = static_cast<int64_t>(number);
  return true;
}

bool SchemaWriter::array(const Fields& fields, const Place& place) {
  int64_t num_prefix = 0;
  if (const auto prefix = fields.find("prefixItems"); prefix != fields.end()) {
    dom::array list;
    if (prefix->second.get(list) != simdjson::SUCCESS || list.size() == 0) {
      return fail_value(place, "prefixItems", "a list of schemas");
    }
    json_.key("prefixItems").begin_array();
    for (const dom::element item : list) {
      const Place inside = place.within(fmt::format("prefixItems/{}", num_prefix++), false);
      if (!schema(item, inside)) return false;
    }
    json_.end_array();
  }
  const auto items = fields.find("items");
  bool more = num_prefix == 0;
  const bool is_flag = items != fields.end() && items->second.get(more) == simdjson::SUCCESS;
  if (items != fields.end() && items->second.is_array()) {
    return refuse(place, "items", "a list of schemas is not supported, use prefixItems");
  }
  json_.key("items");
  if (items == fields.end() || is_flag) {
    if (more) {
      json_.begin_object().end_object();
    } else {
      json_.value(false);
    }
  } else if (!schema(items->second, place.within("items", false))) {
    return false;
  }
  if (items != fields.end() && !is_flag) more = true;
  std::optional<int64_t> min, max;
  if (!count(fields, place, "minItems", min) || !count(fields, place, "maxItems", max)) {
    return false;
  }
  if (!more) max = std::min(max.value_or(num_prefix), num_prefix);
  if (min.value_or(0) > max.value_or(kMaxCounted)) {
    return refuse(place, "minItems", "is above the number of items that there may be");
  }
  if (max && *max < num_prefix) {
    return refuse(place, "maxItems", "is below the number of prefixItems");
  }
  if (min) json_.field("minItems", *min);
  if (max && more) json_.field("maxItems", *max);
  return true;
}

// Lists all arrays that there may be.
bool SchemaWriter::unique_array(const Fields& fields, const Place& place) {
  std::optional<int64_t> min, max;
  bool on = false;
  if (fields.at("uniqueItems").get(on) != simdjson::SUCCESS) {
    return fail_value(place, "uniqueItems", "true or false");
  }
  if (!count(fields, place, "minItems", min) || !count(fields, place, "maxItems", max)) {
    return false;
  }
  const auto items = fields.find("items");
  const auto values = items != fields.end() && !fields.contains("prefixItems")
                          ? distinct_values(root_, items->second)
                          : std::nullopt;
  const auto lists =
      values ? lists_without_repeats(*values, min.value_or(0), max.value_or(kMaxCounted))
             : std::nullopt;
  if (!lists) {
    return refuse(place, "uniqueItems",
                  fmt::format("is supported if items has an enum or const of strings, numbers, "
                              "true, false and null, and there are at most {} arrays: those of 5 "
                              "values, or of more with a small maxItems",
                              kMaxLists));
  }
  if (lists->empty()) {
    return refuse(place, "minItems", "is above the number of items that there may be");
  }
  json_.begin_object().key("enum").begin_array();
  for (const Elements& list : *lists) {
    json_.begin_array();
    for (const dom::element value : list) json_.raw(simdjson::minify(value));
    json_.end_array();
  }
  json_.end_array();
  mark();
  json_.end_object();
  return true;
}

bool SchemaWriter::string(const Fields& fields, const Place& place) {
  std::optional<int64_t> min, max;
  if (!count(fields, place, "minLength", min) || !count(fields, place, "maxLength", max)) {
    return false;
  }
  if (max && min.value_or(0) > *max) return refuse(place, "minLength", "is above maxLength");
  const TextLengths lengths = {min.value_or(0), max};
  for (const std::string_view keyword : {"pattern", "format"}) {
    if (!fields.contains(keyword)) continue;
    if (!only(fields, place, keyword, {"minLength", "maxLength"})) return false;
    std::string_view text;
    if (fields.at(keyword).get(text) != simdjson::SUCCESS) {
      return fail_value(place, keyword, "a string");
    }
    const Result<std::string> regex = keyword == "pattern"
                                          ? rewrite_regex(text, RegexUse::kJsonString, lengths)
                                          : regex_of_format(text, lengths);
    if (!regex) return refuse(place, keyword, regex.error().message);
    if (regex->find(kLengthMark) != regex->npos) {
      return refuse(place, "pattern", "has a reserved text");
    }
    json_.field("pattern", *regex);
    return true;
  }
  if (!min && !max) return true;
  // The library's own lengths let control characters pass, which JSON does not allow.
  const std::string counts =
      fmt::format("{},{}", min.value_or(0), max ? fmt::format("{}", *max) : "");
  json_.field("pattern", max.value_or(min.value_or(0)) > kMaxCharactersOfPattern
                             ? fmt::format("{}{}", kLengthMark, counts)
                             : fmt::format("{}{{{}}}", kStringCharacter, counts));
  return true;
}

bool SchemaWriter::number(std::string_view type, const Fields& fields, const Place& place) {
  for (const auto& [name, value] : fields) {
    double bound = 0;
    if (value.get(bound) != simdjson::SUCCESS) return fail_value(place, name, "a number");
    const bool is_whole = bound == std::floor(bound) && std::abs(bound) <= 1e15;
    if (type == "integer") {
      if (!is_whole) return refuse(place, name, "is supported for integers up to 1e15 only");
      if (name == "multipleOf" && bound < 1) return fail_value(place, name, "a number above 0");
      json_.field(name, static_cast<int64_t>(bound));
    } else if (name == "multipleOf") {
      return refuse(place, name, "is supported for integers only");
    } else if (std::abs(bound) > 1e9 || bound * 1000 != std::floor(bound * 1000)) {
      return refuse(place, name, "is supported up to 1e9 with three decimals only");
    } else {
      json_.key(name).raw(simdjson::minify(value));
    }
  }
  return true;
}

// No value may have to match a schema only because it matches it.
bool SchemaWriter::check_circles() {
  std::vector<int> state(same_value_.size(), 0);  // 1: on the way, 2: done
  const auto visit = [&](const auto& self, int node) -> bool {
    int& mine = state[static_cast<size_t>(node)];
    if (mine != 0) return mine == 2;
    mine = 1;
    for (const int next : same_value_[static_cast<size_t>(node)]) {
      if (self(self, next)) continue;
      const std::string path =
          node == 0 ? "#" : "#/" + definitions_[static_cast<size_t>(node) - 1].first;
      return refuse({.path = path}, "$ref", "refers to itself");
    }
    state[static_cast<size_t>(node)] = 2;
    return true;
  };
  for (int node = 0; node < static_cast<int>(state.size()); ++node) {
    if (!visit(visit, node)) return false;
  }
  return true;
}

// The library gets each as "anyOf".
bool SchemaWriter::check_one_ofs() {
  int64_t comparisons = kMaxComparisons;
  for (const auto& [place, schemas] : one_ofs_) {
    const auto both = find_overlap(root_, schemas, place.tags, comparisons);
    if (!both) continue;
    if (comparisons < 0) {
      return fail_form(
          place, "oneOf",
          fmt::format("its schemas take more than {} comparisons to tell apart", kMaxComparisons));
    }
    return refuse(
        place, "oneOf",
        fmt::format("an answer may match both {} and {} of its schemas; no type, constant "
                    "or required property tells them apart",
                    both->first, both->second));
  }
  return true;
}

}  // namespace

Result<RewrittenSchema> rewrite_schema(std::string_view schema) {
  if (schema.size() > kMaxSchemaBytes) {
    return {"invalid_form", fmt::format("the schema is longer than {} bytes", kMaxSchemaBytes)};
  }
  simdjson::dom::parser parser;
  dom::element root;
  const simdjson::error_code error = parser.parse(schema.data(), schema.size()).get(root);
  if (error == simdjson::DEPTH_ERROR) {
    return {"invalid_form", "the schema is nested deeper than 1024 levels"};
  }
  if (error != simdjson::SUCCESS) return {"invalid_form", "the schema is not JSON"};
  return SchemaWriter(root).write();
}

}  // namespace pagedinfer
