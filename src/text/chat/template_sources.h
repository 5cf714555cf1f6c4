#pragma once

#include <string>
#include <vector>

#include "io/model_store.h"

namespace pagedinfer {

// The text of a chat template, and where it stands.
struct TemplateSource {
  std::string name = {};    // "default", "tool_use", ...
  std::string origin = {};  // "chat_template.jinja", "tokenizer_config.json"
  std::string text = {};
  std::string key = {};  // of the field of that file: "chat_template"; "" = it is the whole file
};

// Where the template stands, for messages: "chat_template of tokenizer_config.json".
std::string location_of(const TemplateSource& source);

// The templates of a model directory, as transformers finds them: chat_template.jinja and those of
// additional_chat_templates/, whose default.jinja counts before it, else `chat_template` of
// tokenizer_config.json, else that of chat_template.json. None if there is none. Throws Error if a
// file cannot be read.
std::vector<TemplateSource> find_templates(const ModelStore& model);

// The template that a file holds. Throws Error if it cannot be read.
TemplateSource read_template(const std::string& path, std::string name, std::string origin);

// The one for a conversation with or without tools, as transformers chooses; null if there is none.
const TemplateSource* choose_template(const std::vector<TemplateSource>& sources, bool has_tools);

}  // namespace pagedinfer
