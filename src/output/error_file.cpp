#include "output/error_file.h"

#include <simdjson.h>

#include <string_view>

#include "core/json.h"
#include "io/json_extent.h"
#include "io/line_reader.h"
#include "output/aside_file.h"

namespace pagedinfer {
namespace {

// The prefix of the new file's name, until it is complete.
std::string prefix_of(const std::string& errors) { return errors + ".writing"; }

// The JSON text of a field; "null" if there is none.
std::string text_at(simdjson::dom::object record, std::string_view key) {
  simdjson::dom::element value;
  return record[key].get(value) == simdjson::SUCCESS ? simdjson::minify(value) : "null";
}

// Appends the record, whose text is `line`, if it is an error.
void append_error(std::string_view line, simdjson::dom::object record, std::string& out) {
  const std::string error = text_at(record, "error");
  if (error == "null") return;
  simdjson::dom::element ignored;
  const bool is_batch = record["custom_id"].get(ignored) == simdjson::SUCCESS;
  const std::string index = text_at(record, "index");
  JsonWriter json(out);
  json.begin_object().field("id", "batch_req_" + index);
  json.key("custom_id").raw(text_at(record, is_batch ? "custom_id" : "id"));
  json.key("index").raw(index).key("line").raw(text_at(record, "line"));
  for (const JsonMember& member : json_members(line)) {
    if (member.key == "\"input\"") json.key("input").raw(member.value);  // as it was written
  }
  json.field("response", nullptr).key("error").raw(error).end_object();
  out += '\n';
}

}  // namespace

void check_error_file(const std::string& errors) {
  const FileCalls calls;
  const AsideFile gone_again(prefix_of(errors), calls);
}

void write_error_file(const std::string& output, const std::string& errors) {
  const FileCalls calls;
  OutputFile::remove_dead(prefix_of(errors), calls, [](const std::string&) { return false; });
  AsideFile aside(prefix_of(errors), calls);
  simdjson::dom::parser parser;
  std::string line;
  scan_lines(output, 0, [&](std::string_view text, int64_t) {
    simdjson::dom::object record;
    if (parser.parse(text.data(), text.size()).get(record) != simdjson::SUCCESS) return true;
    line.clear();
    append_error(text, record, line);
    aside.file().append(line);
    return true;
  });
  aside.close();
  aside.rename(errors);
  aside.keep();
}

}  // namespace pagedinfer
