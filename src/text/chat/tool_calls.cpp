#include "text/chat/tool_calls.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/json.h"
#include "io/json_extent.h"
#include "text/chat/thought_marks.h"
#include "text/stop_strings.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

using Tokens = std::span<const TokenId>;

// What stands before and behind calls. Without an end they go on to the next mark or the end.
struct CallMarks {
  std::string_view begin, end;
};
constexpr std::array<CallMarks, 4> kMarks = {{
    {"<tool_call>", "</tool_call>"},      // one object
    {"<|tool_call|>", "<|/tool_call|>"},  // a list of objects
    {"[TOOL_CALLS]", ""},                 // a list of objects, or NAME[ARGS]{...}
    {"<|python_tag|>", ""},               // objects with ; between them
}};
// Models with this mark call without it too: the answer is nothing but objects.
constexpr std::string_view kOptionalMark = "<|python_tag|>";
// What a model may give as the name of the arguments.
constexpr std::array<std::string_view, 2> kArguments = {"arguments", "parameters"};

std::string text_of(const Tokenizer& tokenizer, Tokens tokens, bool show_special) {
  TextStream text(tokenizer, {}, {.show_special = show_special});
  for (const TokenId token : tokens) text.push(token);
  return text.finish();
}

std::string_view strip_left(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

bool eat(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// Takes the JSON value at the beginning of the text; "" if there is none.
std::string_view take_json(std::string_view& text) {
  const JsonExtent extent = scan_json(text);
  if (extent.end != JsonExtent::End::kWhole) return "";
  return std::exchange(text, text.substr(extent.size)).substr(0, extent.size);
}

// {"name": ..., "arguments": ...}. Models also give arguments as the text of their JSON.
bool read_call(dom::element json, std::vector<ToolCall>& calls) {
  std::string_view name, text;
  if (!json.is_object() || json["name"].get(name) != simdjson::SUCCESS || name.empty()) {
    return false;
  }
  ToolCall call = {.name = std::string(name), .arguments = "{}"};
  for (const std::string_view key : kArguments) {
    dom::element arguments;
    if (json[key].get(arguments) != simdjson::SUCCESS || arguments.is_null()) continue;
    const bool is_text = arguments.get(text) == simdjson::SUCCESS;
    call.arguments = is_text ? std::string(text) : simdjson::minify(arguments);
    break;
  }
  calls.push_back(std::move(call));
  return true;
}

// An object or a list of objects.
bool read_objects(std::string_view text, std::vector<ToolCall>& calls) {
  dom::parser parser;
  dom::element json;
  dom::array list;
  if (parser.parse(text.data(), text.size()).get(json) != simdjson::SUCCESS) return false;
  if (json.get(list) != simdjson::SUCCESS) return read_call(json, calls);
  for (const dom::element item : list) {
    if (!read_call(item, calls)) return false;
  }
  return list.size() > 0;
}

bool is_name_letter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.';
}

// NAME[ARGS]{...}, with [CALL_ID]... before [ARGS] or not.
bool read_named(std::string_view& text, std::vector<ToolCall>& calls) {
  const size_t args = text.find("[ARGS]");
  const size_t name = std::min({args, text.find("[CALL_ID]"), text.find('{'), text.size()});
  ToolCall call = {.name = std::string(text.substr(0, name))};
  if (name == 0 || !std::ranges::all_of(call.name, is_name_letter)) return false;
  text = strip_left(text.substr(args == text.npos ? name : args + 6));
  const std::string_view json = take_json(text);
  dom::parser parser;
  if (!json.starts_with('{') || parser.parse(json.data(), json.size()).error()) return false;
  call.arguments = json;
  calls.push_back(std::move(call));
  return true;
}

// Takes the calls at the beginning of the text.
bool read_calls(std::string_view& text, std::vector<ToolCall>& calls) {
  text = strip_left(text);
  if (!text.starts_with('{') && !text.starts_with('[')) return read_named(text, calls);
  while (text.starts_with('{') || text.starts_with('[')) {
    const std::string_view json = take_json(text);
    if (json.empty() || !read_objects(json, calls)) return false;
    text = strip_left(text);
    if (eat(text, ";") || eat(text, ",")) text = strip_left(text);
  }
  return true;
}

// {"name":NAME,"arguments":...}, as the form of the answer writes it.
bool read_required(const ToolUse& tools, std::string_view text, std::vector<ToolCall>& calls) {
  for (const std::string& name : tools.names) {
    std::string json;
    append_json_string(json, name);
    std::string_view rest = text;
    if (!eat(rest, fmt::format(R"({{"name":{},"arguments":)", json))) continue;
    const std::string_view arguments = take_json(rest);
    if (arguments.empty() || !rest.starts_with('}')) return false;
    calls.push_back({.name = name, .arguments = std::string(arguments)});
    return true;
  }
  return false;
}

bool read_forced(const ToolUse& tools, std::string_view text, std::vector<ToolCall>& calls) {
  if (tools.choice == ToolChoice::kRequired) return read_required(tools, text, calls);
  const std::string_view arguments = take_json(text);
  if (arguments.empty()) return false;
  calls.push_back({.name = tools.names[tools.named], .arguments = std::string(arguments)});
  return true;
}

// Where the first mark stands, and which.
struct FoundMark {
  size_t place = 0;
  const CallMarks* marks = nullptr;
};

FoundMark first_mark(const Tokenizer& tokenizer, Tokens tokens) {
  FoundMark found = {.place = tokens.size()};
  for (const CallMarks& marks : kMarks) {
    const std::optional<TokenId> begin = added_token(tokenizer, marks.begin);
    if (!begin) continue;
    const auto place = static_cast<size_t>(std::ranges::find(tokens, *begin) - tokens.begin());
    if (place < found.place) found = {place, &marks};
  }
  return found;
}

// The calls between the marks; a mark of the same kind or its end ends each.
bool read_marked(const Tokenizer& tokenizer, const CallMarks& marks, Tokens tokens,
                 std::vector<ToolCall>& calls) {
  const TokenId begin = *added_token(tokenizer, marks.begin);
  const std::optional<TokenId> end = added_token(tokenizer, marks.end);
  while (!tokens.empty()) {
    const auto at = std::ranges::find(tokens, begin);
    if (at == tokens.end()) break;
    tokens = {at + 1, tokens.end()};
    const auto stop = std::ranges::find_if(
        tokens, [&](TokenId token) { return token == begin || (end && token == *end); });
    const std::string text = text_of(tokenizer, {tokens.begin(), stop}, true);
    std::string_view rest = text;  // behind the calls only marks of ends may stand
    if (!read_calls(rest, calls)) return false;
    tokens = {stop, tokens.end()};
  }
  return true;
}

// An answer that is nothing but calls of functions that there are.
bool read_unmarked(const ToolUse& tools, std::string_view text, std::vector<ToolCall>& calls) {
  text = strip_left(text);
  if (!text.starts_with('{') || !read_calls(text, calls) || !text.empty()) return false;
  return std::ranges::all_of(calls, [&](const ToolCall& call) {
    return std::ranges::find(tools.names, call.name) != tools.names.end();
  });
}

}  // namespace

std::optional<SpokenCalls> find_calls(const ToolUse& tools, const Tokenizer& tokenizer,
                                      Tokens tokens) {
  if (tools.choice == ToolChoice::kNone) return std::nullopt;
  size_t begin = 0;  // of what is no thought
  if (const auto thoughts = thought_marks(tokenizer)) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == thoughts->end) begin = i + 1;
    }
  }
  const Tokens said = tokens.subspan(begin);
  SpokenCalls spoken;
  bool found = false;
  size_t content = begin;
  if (tools.choice != ToolChoice::kAuto) {
    found = read_forced(tools, text_of(tokenizer, said, false), spoken.calls);
  } else if (const FoundMark mark = first_mark(tokenizer, said); mark.marks != nullptr) {
    content += mark.place;
    found = read_marked(tokenizer, *mark.marks, said.subspan(mark.place), spoken.calls);
  } else if (added_token(tokenizer, kOptionalMark)) {
    found = read_unmarked(tools, text_of(tokenizer, said, false), spoken.calls);
  }
  if (!found || spoken.calls.empty()) return std::nullopt;
  spoken.content = text_of(tokenizer, tokens.first(content), false);
  if (!tools.several) spoken.calls.resize(1);
  return spoken;
}

}  // namespace pagedinfer
