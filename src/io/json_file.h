#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/problems.h"

namespace pagedinfer {

// One object of a JSON file, read field by field. Unknown fields are ignored, a null field counts
// as absent, and of a repeated key the last one counts. The find functions return nullopt for an
// absent field; integer(), number() and string() throw. All throw Error, naming the file and the
// field, for a value of another type or out of range.
class JsonObject {
 public:
  // Messages put `prefix` before the names of fields: "rope_scaling.". What complain() says goes
  // into `problems`, unless that is null.
  JsonObject(std::string file, std::string prefix, simdjson::dom::object object,
             Problems* problems = nullptr)
      : file_(std::move(file)), prefix_(std::move(prefix)), object_(object), problems_(problems) {}

  bool has(std::string_view key) const { return find(key).has_value(); }
  bool is_null(std::string_view key) const;  // it is there
  std::optional<int64_t> find_integer(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> find_number(std::string_view key, double min, double max) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<JsonObject> find_object(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;  // a list; empty if absent
  std::vector<JsonObject> objects(std::string_view key) const;   // a list; empty if absent
  // Lists; empty if absent.
  std::vector<int64_t> integers(std::string_view key, int64_t min, int64_t max) const;
  std::vector<double> numbers(std::string_view key, double min, double max) const;
  // A number or a list; empty if absent.
  std::vector<int64_t> one_or_more(std::string_view key, int64_t min, int64_t max) const;

  int64_t integer(std::string_view key, int64_t min, int64_t max) const;
  double number(std::string_view key, double min, double max) const;

  std::string string(std::string_view key) const;

  const simdjson::dom::object& fields() const { return object_; }
  // Wraps an object that the field `key` holds, so that messages name its place.
  JsonObject within(std::string_view key, simdjson::dom::object object) const;
  // The same object; problems are kept in `problems`.
  JsonObject keeping(Problems& problems) const { return {file_, prefix_, object_, &problems}; }
  // The field of any type; nullopt if it is absent or null.
  std::optional<simdjson::dom::element> find(std::string_view key) const;

  // Throws "FILE: 'KEY' " + message.
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;
  // Throws "FILE: KEY: found FOUND, expected " + expected. `found` is the field, stands in it, or
  // is what was read; "" if the field is absent.
  [[noreturn]] void refuse(std::string_view key, simdjson::dom::element found,
                           std::string_view expected) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view found,
                           std::string_view expected) const;
  // As fail() and refuse(), for errors that need not end the reading: returns if problems are kept.
  void complain(std::string_view key, std::string_view message) const;
  void complain(std::string_view key, std::string_view found, std::string_view expected) const;
  // Calls `step`. If it throws Error and problems are kept, adds the Error to them and returns
  // false. If problems are not kept, throws the Error.
  template <class Step>
  bool keep(const Step& step) const {
    if (problems_ != nullptr) return problems_->keep(step);
    step();
    return true;
  }

 private:
  int64_t as_integer(std::string_view key, simdjson::dom::element value, int64_t min,
                     int64_t max) const;
  double as_number(std::string_view key, simdjson::dom::element value, double min,
                   double max) const;

  std::string file_, prefix_;
  simdjson::dom::object object_;
  Problems* problems_;
};

// A JSON file in memory, whose root must be an object. Throws Error if it is not, or cannot be
// read. REQUIRES: it outlives the objects that it returns.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path, Problems* problems = nullptr);
  // Parses `bytes`; `path` is for messages.
  JsonFile(std::string path, std::string_view bytes, Problems* problems = nullptr);

  JsonObject root() const { return {path_, "", root_, problems_}; }

 private:
  void parse(const simdjson::padded_string& text);

  std::string path_;
  Problems* problems_ = nullptr;
  // Elsewhere, because elements refer to it.
  std::unique_ptr<simdjson::dom::parser> parser_ = std::make_unique<simdjson::dom::parser>();
  simdjson::dom::object root_;
};

}  // namespace pagedinfer
