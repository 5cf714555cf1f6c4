#include "output/record_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include "core/error.h"
#include "io/json_extent.h"

namespace pagedinfer {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxColumns = 10'000;

// The columns of every table: before and behind the keys of `input`.
constexpr std::array<std::string_view, 2> kHeadNames = {"id", "index"};
constexpr std::array<std::string_view, 7> kTailNames = {
    "completion",        "text",       "finish_reason", "prompt_tokens",
    "completion_tokens", "error_code", "error_message"};

// Where a value's column stands.
enum class Part : uint8_t { kHead, kInput, kTail, kOther };

std::optional<size_t> place_in(std::span<const std::string_view> names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<size_t>(found - names.begin());
}

template <class Put>
void put_field(size_t row, std::string_view name, dom::element value, const Put& put) {
  if (value.is_null()) return;
  put(row, place_in(kTailNames, name) ? Part::kTail : Part::kOther, name, value);
}

// Calls put(row, part, name, value) with all values of a completion.
template <class Put>
void take_choice(size_t row, dom::object choice, const Put& put) {
  for (const auto [name, value] : choice) {
    if (name == "index") continue;
    if (name != "message") {
      put_field(row, name, value, put);
      continue;
    }
    dom::element content, calls;
    if (value["content"].get(content) == simdjson::SUCCESS) put_field(row, "text", content, put);
    if (value["tool_calls"].get(calls) == simdjson::SUCCESS) {
      put_field(row, "tool_calls", calls, put);
    }
  }
}

// The list of completions; an error if there is none, since the record itself is the only one.
simdjson::simdjson_result<dom::array> choices_of(dom::object record) {
  dom::array choices;
  if (record["choices"].get(choices) == simdjson::SUCCESS) return choices;
  return record["response"]["body"]["choices"].get_array();
}

// Calls put(row, part, name, value) with all values of a record but nulls.
template <class Put>
void take_apart(dom::object record, const Put& put) {
  dom::array choices;
  if (choices_of(record).get(choices) == simdjson::SUCCESS) {
    size_t row = 0;
    for (const dom::element choice : choices) {
      dom::object fields;
      if (choice.get(fields) == simdjson::SUCCESS) take_choice(row, fields, put);
      ++row;
    }
  }
  dom::element custom_id;
  const bool is_batch = record["custom_id"].get(custom_id) == simdjson::SUCCESS;
  for (const auto [name, value] : record) {
    if (name == "id" && is_batch) continue;
    if (name == "choices" || name == "line") continue;
    if (name == "id" || name == "custom_id") {
      put(0, Part::kHead, "id", value);
    } else if (name == "index") {
      put(0, Part::kHead, name, value);
    } else if (dom::object kept; name == "input" && value.get(kept) == simdjson::SUCCESS) {
      for (const auto [key, part] : kept) put(0, Part::kInput, key, part);
    } else if (dom::object error; name == "error" && value.get(error) == simdjson::SUCCESS) {
      for (const auto [key, part] : error) {
        put_field(0, key == "text" ? "text" : fmt::format("error_{}", key), part, put);
      }
    } else if (name == "response") {
      for (const std::string_view count : {"prompt_tokens", "completion_tokens"}) {
        dom::element number;
        if (value["body"]["usage"][count].get(number) == simdjson::SUCCESS) {
          put_field(0, count, number, put);
        }
      }
    } else {
      put_field(0, name, value, put);
    }
  }
}

// A text as it is, and JSON of anything else.
std::string text_of(dom::element value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  return value.is_null() ? "" : simdjson::minify(value);
}

void append_row(std::string& out, std::span<const std::string> cells) {
  const char* between = "";
  for (const std::string& cell : cells) {
    out += std::exchange(between, ",");
    if (cell.find_first_of(",\"\r\n") == cell.npos) {
      out += cell;
      continue;
    }
    out += '"';
    for (const char c : cell) out.append(c == '"' ? 2 : 1, c);
    out += '"';
  }
  out += '\n';
}

}  // namespace

void RecordTable::Names::add(std::string_view name) {
  if (places.contains(name)) return;
  if (names.size() == kMaxColumns) {
    throw Error(fmt::format("the records have more than {} different keys, expected fewer columns",
                            kMaxColumns));
  }
  places.emplace(name, names.size());
  names.emplace_back(name);
}

void RecordTable::add(dom::object record) {
  take_apart(record, [&](size_t, Part part, std::string_view name, dom::element) {
    if (part == Part::kInput) inputs_.add(name);
    if (part == Part::kOther) others_.add(name);
  });
}

std::string RecordTable::header() const {
  std::vector<std::string> names(kHeadNames.begin(), kHeadNames.end());
  std::set<std::string, std::less<>> used(kHeadNames.begin(), kHeadNames.end());
  used.insert(kTailNames.begin(), kTailNames.end());
  used.insert(others_.names.begin(), others_.names.end());
  for (std::string name : inputs_.names) {
    while (!used.insert(name).second) name.insert(0, "input.");
    names.push_back(std::move(name));
  }
  names.insert(names.end(), kTailNames.begin(), kTailNames.end());
  names.insert(names.end(), others_.names.begin(), others_.names.end());
  std::string out;
  append_row(out, names);
  return out;
}

void RecordTable::append_rows(std::string& out, dom::object record, std::string_view line) const {
  const size_t tail = kHeadNames.size() + inputs_.names.size();
  const size_t num_columns = tail + kTailNames.size() + others_.names.size();
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(num_columns));
  const auto column_of = [&](Part part, std::string_view name) {
    switch (part) {
      case Part::kHead: return *place_in(kHeadNames, name);
      case Part::kInput: return kHeadNames.size() + inputs_.places.find(name)->second;
      case Part::kTail: return tail + *place_in(kTailNames, name);
      case Part::kOther: break;
    }
    return tail + kTailNames.size() + others_.places.find(name)->second;
  };
  take_apart(record, [&](size_t row, Part part, std::string_view name, dom::element value) {
    if (row >= rows.size()) rows.resize(row + 1, std::vector<std::string>(num_columns));
    rows[row][column_of(part, name)] = text_of(value);
  });
  if (dom::object kept; record["input"].get(kept) == simdjson::SUCCESS) {
    const std::vector<JsonMember> of_record = json_members(line);
    const auto input = std::ranges::find(of_record, "\"input\"", &JsonMember::key);
    const std::vector<JsonMember> members = json_members(input->value);
    auto member = members.begin();
    for (const auto [key, value] : kept) {
      const bool is_as_written = value.is_number() || value.is_object() || value.is_array();
      if (is_as_written) rows[0][column_of(Part::kInput, key)] = member->value;
      ++member;
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    std::copy_n(rows[0].begin(), tail, rows[row].begin());
    const bool is_error = !rows[row][column_of(Part::kTail, "error_code")].empty();
    if (!is_error) rows[row][column_of(Part::kTail, "completion")] = std::to_string(row);
    append_row(out, rows[row]);
  }
}

}  // namespace pagedinfer
