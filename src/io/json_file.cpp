#include "io/json_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"
#include "io/json_parse.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

using simdjson::dom::element;

// A value as messages show it, at most 63 bytes.
std::string shown(element value) {
  constexpr size_t kMaxShown = 60;
  if (is_beyond_double(value)) return "not a finite number";
  const std::string text = simdjson::minify(value);
  const std::string_view first = first_bytes(text, kMaxShown);
  return fmt::format("{}{}", first, first.size() < text.size() ? "..." : "");
}

// The field as a T; nullopt if it is absent.
template <class T>
std::optional<T> find_as(const JsonObject& object, std::string_view key,
                         std::string_view expected) {
  const auto value = object.find(key);
  if (!value) return std::nullopt;
  T found;
  if (value->get(found) != simdjson::SUCCESS) object.refuse(key, *value, expected);
  return found;
}

// What `read` makes of the items of a list; empty if the field is absent.
template <class Read>
auto read_list(const JsonObject& object, std::string_view key, std::string_view expected,
               const Read& read) {
  std::vector<decltype(read(element()))> all;
  const auto list = find_as<simdjson::dom::array>(object, key, expected);
  if (!list) return all;
  for (const element item : *list) all.push_back(read(item));
  return all;
}

simdjson::padded_string load(const std::string& path) {
  const OpenFile file(path);
  struct stat status = {};
  if (fstat(file.fd, &status) != 0) throw cannot_read(path, errno);
  simdjson::padded_string text(static_cast<size_t>(status.st_size));
  const ssize_t count = read_at(file.fd, 0, text.data(), text.size());
  if (count < 0) throw cannot_read(path, errno);
  if (static_cast<size_t>(count) < text.size()) {
    throw Error(fmt::format("{}: was truncated while it was read", path));
  }
  return text;
}

}  // namespace

void JsonObject::fail(std::string_view key, std::string_view message) const {
  throw Error(fmt::format("{}: '{}' {}", file_, shortened(prefix_ + std::string(key)), message));
}

void JsonObject::refuse(std::string_view key, element found, std::string_view expected) const {
  refuse(key, shown(found), expected);
}

void JsonObject::refuse(std::string_view key, std::string_view found,
                        std::string_view expected) const {
  throw Error(fmt::format("{}: {}", file_,
                          refusal(shortened(prefix_ + std::string(key)), found, expected)));
}

std::optional<element> JsonObject::find(std::string_view key) const {
  std::optional<element> found;
  for (const auto field : object_) {
    if (field.key == key) found = field.value;
  }
  if (found && found->is_null()) return std::nullopt;
  return found;
}

bool JsonObject::is_null(std::string_view key) const {
  return std::ranges::any_of(
      object_, [&](const auto& field) { return field.key == key && field.value.is_null(); });
}

void JsonObject::complain(std::string_view key, std::string_view message) const {
  keep([&] { fail(key, message); });
}

void JsonObject::complain(std::string_view key, std::string_view found,
                          std::string_view expected) const {
  keep([&] { refuse(key, found, expected); });
}

JsonObject JsonObject::within(std::string_view key, simdjson::dom::object object) const {
  return {file_, fmt::format("{}{}.", prefix_, key), object, problems_};
}

int64_t JsonObject::as_integer(std::string_view key, element value, int64_t min,
                               int64_t max) const {
  int64_t integer = 0;
  if (value.get(integer) != simdjson::SUCCESS || integer < min || integer > max) {
    refuse(key, value, text_of(IntegerRange{min, max}));
  }
  return integer;
}

double JsonObject::as_number(std::string_view key, element value, double min, double max) const {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS || !(number >= min && number <= max)) {
    refuse(key, value, text_of(NumberRange{min, max}));
  }
  return number;
}

std::optional<int64_t> JsonObject::find_integer(std::string_view key, int64_t min,
                                                int64_t max) const {
  const auto value = find(key);
  return value ? std::optional(as_integer(key, *value, min, max)) : std::nullopt;
}

std::optional<double> JsonObject::find_number(std::string_view key, double min, double max) const {
  const auto value = find(key);
  return value ? std::optional(as_number(key, *value, min, max)) : std::nullopt;
}

std::optional<bool> JsonObject::find_bool(std::string_view key) const {
  return find_as<bool>(*this, key, "true or false");
}

std::optional<std::string> JsonObject::find_string(std::string_view key) const {
  const auto text = find_as<std::string_view>(*this, key, "a string");
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

std::optional<JsonObject> JsonObject::find_object(std::string_view key) const {
  const auto object = find_as<simdjson::dom::object>(*this, key, "an object");
  return object ? std::optional(within(key, *object)) : std::nullopt;
}

std::vector<std::string> JsonObject::strings(std::string_view key) const {
  constexpr std::string_view kExpected = "a list of strings";
  return read_list(*this, key, kExpected, [&](element item) {
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS) refuse(key, item, kExpected);
    return std::string(text);
  });
}

std::vector<JsonObject> JsonObject::objects(std::string_view key) const {
  constexpr std::string_view kExpected = "a list of objects";
  int count = 0;
  return read_list(*this, key, kExpected, [&](element item) {
    simdjson::dom::object object;
    if (item.get(object) != simdjson::SUCCESS) refuse(key, item, kExpected);
    return within(fmt::format("{}[{}]", key, count++), object);
  });
}

std::vector<int64_t> JsonObject::integers(std::string_view key, int64_t min, int64_t max) const {
  return read_list(*this, key, "a list of integers",
                   [&](element item) { return as_integer(key, item, min, max); });
}

std::vector<double> JsonObject::numbers(std::string_view key, double min, double max) const {
  return read_list(*this, key, "a list of numbers",
                   [&](element item) { return as_number(key, item, min, max); });
}

std::vector<int64_t> JsonObject::one_or_more(std::string_view key, int64_t min, int64_t max) const {
  const auto value = find(key);
  if (!value) return {};
  if (value->is_array()) return integers(key, min, max);
  return {as_integer(key, *value, min, max)};
}

int64_t JsonObject::integer(std::string_view key, int64_t min, int64_t max) const {
  const auto value = find_integer(key, min, max);
  if (!value) refuse(key, "", text_of(IntegerRange{min, max}));
  return *value;
}

double JsonObject::number(std::string_view key, double min, double max) const {
  const auto value = find_number(key, min, max);
  if (!value) refuse(key, "", text_of(NumberRange{min, max}));
  return *value;
}

std::string JsonObject::string(std::string_view key) const {
  const auto value = find_string(key);
  if (!value) refuse(key, "", "a string");
  return *value;
}

JsonFile::JsonFile(const std::string& path, Problems* problems) : path_(path), problems_(problems) {
  parse(load(path));
}

JsonFile::JsonFile(std::string path, std::string_view bytes, Problems* problems)
    : path_(std::move(path)), problems_(problems) {
  parse(simdjson::padded_string(bytes));
}

void JsonFile::parse(const simdjson::padded_string& text) {
  element root;
  if (const auto error = parse_model_json(*parser_, text).get(root); error != simdjson::SUCCESS) {
    throw Error(fmt::format("{}: not JSON: {}", path_, simdjson::error_message(error)));
  }
  if (root.get(root_) != simdjson::SUCCESS) {
    throw Error(fmt::format("{}: is {}, expected a JSON object", path_, shown(root)));
  }
}

}  // namespace pagedinfer
