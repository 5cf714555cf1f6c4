#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/sampling_ranges.h"

namespace pagedinfer {

// One object of a JSON file, read field by field. Every error names the file and the field.
// Fields that nobody asks for are ignored, null is absent, and where a key repeats the last
// one counts. The find functions return nothing for an absent field, the others throw.
class JsonObject {
 public:
  // `prefix` stands before the names of fields in messages, "rope_scaling." for example.
  JsonObject(std::string file, std::string prefix, simdjson::dom::object object)
      : file_(std::move(file)), prefix_(std::move(prefix)), object_(object) {}

  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<int64_t> find_integer(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> find_number(std::string_view key, double min, double max) const;
  std::optional<double> find_number(std::string_view key, NumberRange range) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<JsonObject> find_object(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;  // a list; empty if absent
  std::vector<JsonObject> objects(std::string_view key) const;   // a list; empty if absent
  // A list; empty if absent.
  std::vector<int64_t> integers(std::string_view key, int64_t min, int64_t max) const;
  // A number or a list; empty if absent.
  std::vector<int64_t> one_or_more(std::string_view key, int64_t min, int64_t max) const;

  int64_t integer(std::string_view key, int64_t min, int64_t max) const;
  double number(std::string_view key, double min, double max) const;

  std::string string(std::string_view key) const;

  const simdjson::dom::object& fields() const { return object_; }
  // An object that stands in a field, for messages.
  JsonObject within(std::string_view key, simdjson::dom::object object) const;
  // The field as it is.
  std::optional<simdjson::dom::element> find(std::string_view key) const;

  // Throws "FILE: 'KEY' " + message.
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  int64_t as_integer(std::string_view key, simdjson::dom::element value, int64_t min,
                     int64_t max) const;

  std::string file_, prefix_;
  simdjson::dom::object object_;
};

// A JSON file in memory whose root is an object. The objects it gives refer to it.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path);
  // `bytes` are what the file holds.
  JsonFile(std::string path, std::string_view bytes);

  JsonObject root() const { return {path_, "", root_}; }

 private:
  void parse(const simdjson::padded_string& text);

  std::string path_;
  simdjson::dom::parser parser_;
  simdjson::dom::object root_;
};

}  // namespace pagedinfer
