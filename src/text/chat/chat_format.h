#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/template.h"
#include "text/chat/template_sources.h"

namespace pagedinfer {

// The chat templates of a run, parsed, and what they are told in every conversation.
struct ChatFormat {
  std::vector<TemplateSource> sources = {};
  // One for each source, in the same order; nullopt: it cannot be parsed.
  std::vector<std::optional<jinja::Template>> templates = {};
  std::vector<std::string> faults = {};  // why not; "" where it can
  std::string problem = {};              // why there is no template; "" if there is one
  // Names of special tokens and their spellings.
  std::vector<std::pair<std::string, std::string>> tokens = {};
  jinja::DateTime today = {};

  // The spelling of the token of that name; "" if there is none.
  std::string_view token(std::string_view name) const;
};

// Where the template for conversations without tools stands, or "none".
std::string template_origin(const ChatFormat& format);

// A hash of the texts of all templates.
uint64_t template_hash(const ChatFormat& format);

// The template of the file `asked`, or if that is "", those of the model directory. "none" gives
// no template. Throws Error if a file cannot be read or `date` is no day.
ChatFormat read_chat_format(const ModelStore& model, const std::string& asked,
                            std::string_view date);

}  // namespace pagedinfer
