#include "text/chat/chat_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/hash.h"
#include "core/refusal.h"
#include "text/chat/chat_date.h"
#include "text/files/tokenizer_config.h"

namespace pagedinfer {
namespace {

void parse_all(ChatFormat& format) {
  for (const TemplateSource& source : format.sources) {
    format.faults.emplace_back();
    try {
      format.templates.emplace_back(jinja::Template::parse(source.text));
    } catch (const jinja::TemplateError& error) {
      format.templates.emplace_back();
      format.faults.back() =
          fmt::format("the chat template ({}) cannot be read: {}{}", location_of(source),
                      error.line > 0 ? fmt::format("line {}: ", error.line) : "", error.what());
    }
  }
}

std::string missing(const ChatFormat& format) {
  if (format.sources.empty()) {
    return "the model has no chat template; --chat-template FILE gives one";
  }
  std::string names;
  for (const TemplateSource& source : format.sources) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", source.name);
  }
  return fmt::format(
      "the model has chat templates of the names {}, and none is the default; --chat-template FILE "
      "gives one",
      names);
}

}  // namespace

std::string_view ChatFormat::token(std::string_view name) const {
  const auto found = std::ranges::find(tokens, name, &std::pair<std::string, std::string>::first);
  return found == tokens.end() ? "" : std::string_view(found->second);
}

std::string template_origin(const ChatFormat& format) {
  const TemplateSource* const source = choose_template(format.sources, false);
  return source == nullptr ? "none" : source->origin;
}

uint64_t template_hash(const ChatFormat& format) {
  uint64_t hash = 0;
  for (const TemplateSource& source : format.sources) {
    hash = hash_bytes(hash_bytes(hash, source.name), source.text);
  }
  return hash;
}

ChatFormat read_chat_format(const ModelStore& model, const std::string& asked,
                            std::string_view date) {
  const auto today = parse_chat_date(date);
  if (!today) throw Error(refusal("--chat-date", shortened(date), "a day, such as 2024-07-26"));
  ChatFormat format = {.tokens = read_tokenizer_config(model).spellings, .today = *today};
  if (asked == "none") {
    format.problem = "--chat-template none: there is no template for messages";
    return format;
  }
  if (asked.empty()) {
    format.sources = find_templates(model);
  } else {
    try {
      format.sources = {read_template(asked, "default", asked)};
    } catch (const Error& error) {
      throw Error(fmt::format("--chat-template: {}", error.what()));
    }
  }
  parse_all(format);
  const TemplateSource* const source = choose_template(format.sources, false);
  format.problem = source == nullptr
                       ? missing(format)
                       : format.faults[static_cast<size_t>(source - format.sources.data())];
  return format;
}

}  // namespace pagedinfer
