#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "request/line_fields.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

constexpr int kTools = key("tools"), kChoice = key("tool_choice");
constexpr std::string_view kExpectedChoice =
    R"("none", "auto", "required" or {"type": "function", "function": {"name": ...}})";

struct Function {
  std::string name, schema;
};

// A function without parameters takes an empty object.
std::string schema_of(dom::object function) {
  dom::object schema;
  if (function["parameters"].get(schema) != simdjson::SUCCESS || schema.size() == 0) {
    return R"({"type":"object","properties":{},"additionalProperties":false})";
  }
  return simdjson::minify(schema);
}

void read_function(RequestFields& fields, dom::element tool, const std::string& path,
                   std::vector<Function>& functions) {
  dom::object function;
  std::string_view name, type;
  const auto typed = tool["type"];
  if (typed.error() == simdjson::SUCCESS &&
      (typed.get(type) != simdjson::SUCCESS || type != "function")) {
    return fields.refuse_unsupported(fmt::format("{}.type", path), typed.value_unsafe());
  }
  if (tool["function"].get(function) != simdjson::SUCCESS) {
    return fields.refuse_value(path, tool, "an object with a function, an object with a name");
  }
  const std::string place = fmt::format("{}.function", path);
  if (function["name"].get(name) != simdjson::SUCCESS || name.empty()) {
    return fields.refuse_found(place, "no name", "a name, a string that is not empty");
  }
  const auto parameters = function["parameters"];
  if (parameters.error() == simdjson::SUCCESS && !parameters.is_object() && !parameters.is_null()) {
    return fields.refuse_value(fmt::format("{}.parameters", place), parameters.value_unsafe(),
                               "a JSON schema, an object");
  }
  if (std::ranges::find(functions, name, &Function::name) != functions.end()) {
    return fields.refuse_found(fmt::format("{}.name", place), fmt::format("{} again", quote(name)),
                               "another name for each function");
  }
  functions.push_back({std::string(name), schema_of(function)});
}

std::vector<Function> read_functions(RequestFields& fields) {
  std::vector<Function> functions;
  dom::array list;
  if (!fields.asks(kTools) || fields.at(kTools).get(list) != simdjson::SUCCESS) return functions;
  size_t count = 0;
  for (const dom::element tool : list) {
    read_function(fields, tool, fmt::format("{}[{}]", fields.path_of(kTools), count++), functions);
    if (fields.failed()) break;
  }
  return functions;
}

// {"type": "function", "function": {"name": ...}}
void read_named(RequestFields& fields, const std::vector<Function>& functions, ToolUse& use) {
  const dom::element choice = fields.at(kChoice);
  std::string_view type, name;
  if (choice["type"].get(type) != simdjson::SUCCESS || type != "function" ||
      choice["function"]["name"].get(name) != simdjson::SUCCESS) {
    return fields.refuse(kChoice, kExpectedChoice);
  }
  const auto found = std::ranges::find(functions, name, &Function::name);
  if (found == functions.end()) {
    const std::string path = fmt::format("{}.function.name", fields.path_of(kChoice));
    return fields.refuse_found(path, quote(name), "the name of a function of tools");
  }
  use.choice = ToolChoice::kNamed;
  use.named = static_cast<size_t>(found - functions.begin());
}

void read_choice(RequestFields& fields, const std::vector<Function>& functions, ToolUse& use) {
  use.choice = functions.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
  if (!fields.asks(kChoice)) return;
  if (fields.says(kChoice, "none")) {
    use.choice = ToolChoice::kNone;
  } else if (fields.says(kChoice, "required")) {
    use.choice = ToolChoice::kRequired;
  } else if (fields.at(kChoice).is_object()) {
    read_named(fields, functions, use);
  } else if (!fields.says(kChoice, "auto")) {
    fields.refuse(kChoice, kExpectedChoice);
  }
  if (use.choice == ToolChoice::kRequired && functions.empty()) {
    fields.refuse(kChoice, "tools to call beside it");
  }
}

}  // namespace

void read_tools(RequestFields& fields, RequestDraft& draft, bool has_own_form) {
  std::vector<Function> functions = read_functions(fields);
  ToolUse& use = draft.tools;
  read_choice(fields, functions, use);
  fields.read_flag(key("parallel_tool_calls"), use.several);
  std::vector<std::string> names;
  for (const Function& function : functions) names.push_back(function.name);
  use.names = std::move(names);
  const bool is_forced = use.choice == ToolChoice::kRequired || use.choice == ToolChoice::kNamed;
  if (!is_forced || fields.failed()) return;
  if (has_own_form) {
    return fields.refuse_found(fields.path_of(kChoice), "a forced call beside a form of the answer",
                               "one of them");
  }
  AnswerForm& form = draft.sampling.form;
  if (use.choice == ToolChoice::kNamed) {
    form.kind = FormKind::kJsonSchema;
    form.texts = {functions[use.named].schema};
    return;
  }
  std::vector<std::string> texts;
  for (Function& function : functions) {
    texts.push_back(std::move(function.name));
    texts.push_back(std::move(function.schema));
  }
  form.kind = FormKind::kCall;
  form.texts = std::move(texts);
}

}  // namespace pagedinfer
