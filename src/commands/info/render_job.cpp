#include "commands/info/render_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "commands/info/print_output.h"
#include "core/exit_codes.h"
#include "core/json.h"
#include "intake/intake_item.h"
#include "request/input_lines.h"
#include "request/line_arrivals.h"
#include "request/request_parser.h"
#include "text/stop_strings.h"

namespace pagedinfer {
namespace {

struct ShownPrompt {
  std::string text = {};  // "" without a tokenizer
  std::vector<TokenId> tokens = {};
};

PromptLimits limits_of(const Config& config, const ModelInfo& model) {
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  const ModelSpec& spec = model.model.spec;
  PromptLimits limits = {.vocab = spec.vocab > 0 ? spec.vocab : kNoLimit,
                         .max_model_len = config.max_model_len.value_or(
                             spec.max_positions > 0 ? spec.max_positions : kNoLimit)};
  if (model.tokenizer) {
    limits.max_prompt_bytes = max_prompt_bytes(*model.tokenizer, limits.max_model_len);
  }
  return limits;
}

std::string decoded(const std::vector<TokenId>& tokens, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return "";
  TextStream text(*tokenizer, {}, {.show_special = true});
  for (const TokenId token : tokens) text.push(token);
  return text.finish();
}

// The text of the line's first prompt, as the tokenizer gets it. A prompt of token ids is decoded.
std::string prompt_text(const RequestDraft& draft, const Request& request, const ModelInfo& model) {
  if (is_chat(draft, model.chat)) return make_chat_prompt(draft, model.chat)->text;
  return draft.prompt ? *draft.prompt : decoded(request.prompt, model.tokenizer.get());
}

std::vector<ShownPrompt> prompts_of(const RequestDraft& draft, Request request,
                                    const ModelInfo& model) {
  std::vector<ShownPrompt> prompts = {{prompt_text(draft, request, model), request.prompt}};
  for (Request& more : request.more) {
    prompts.push_back({decoded(more.prompt, model.tokenizer.get()), std::move(more.prompt)});
  }
  return prompts;
}

void write_json(JsonWriter& json, const RecordHead& head) {
  json.begin_object().key("id");
  head.id_json.empty() ? json.value(nullptr) : json.raw(head.id_json);
  json.field("index", head.index).field("line", head.line);
}

std::string shown(const RecordHead& head, const std::vector<ShownPrompt>& prompts,
                  const InfoConfig& config) {
  std::string out;
  if (config.json) {
    JsonWriter json(out);
    write_json(json, head);
    json.key("prompts").begin_array();
    for (const ShownPrompt& prompt : prompts) {
      json.begin_object().field("text", prompt.text);
      json.field("token_ids", prompt.tokens).end_object();
    }
    json.end_array().end_object();
    return out + "\n";
  }
  for (const ShownPrompt& prompt : prompts) {
    out += fmt::format("line {}, {} tokens:{}", head.line, prompt.tokens.size(),
                       config.ids ? " " : "\n");
    out += config.ids ? fmt::format("{}\n", fmt::join(prompt.tokens, " ")) : prompt.text + "\n\n";
  }
  return out;
}

std::string shown(const RecordHead& head, const RequestError& error, const InfoConfig& config) {
  if (!config.json) {
    return fmt::format("line {}: {}: {}\n", head.line, error.code.name(), error.message);
  }
  std::string out;
  JsonWriter json(out);
  write_json(json, head);
  json.key("error").begin_object().field("code", error.code.name()).field("message", error.message);
  json.end_object().end_object();
  return out + "\n";
}

}  // namespace

int render_lines(const InfoConfig& config, const ModelInfo& model) {
  const Config& settings = config.config;
  const PromptLimits limits = limits_of(settings, model);
  const Tokenizer* const tokenizer = model.tokenizer.get();
  RequestParser parser(model.defaults, {settings.prompt_field, settings.id_field}, settings.strict);
  InputLines lines(config.render, {.limit = settings.limit});
  lines.recognize();
  LineArrivals arrivals;
  bool failed = false;
  while (const auto line = lines.next()) {
    ParsedLine parsed = parser.parse(line->text, line->index, line->number);
    RequestParser::UnknownKeys unread;
    check_line(parsed, arrivals.add(line->text, line->number), model.chat, settings.strict, unread);
    const RequestDraft draft = parsed.request;
    IntakeItem item = make_request(std::move(parsed), tokenizer, model.chat, limits);
    if (const auto* const failure = std::get_if<Completion>(&item)) {
      failed = true;
      print_output(shown(failure->head, failure->error, config));
      continue;
    }
    Request& request = std::get<Request>(item);
    const RecordHead head = request.head;
    print_output(shown(head, prompts_of(draft, std::move(request), model), config));
  }
  return failed ? exit_code::kSomeWrong : exit_code::kDone;
}

}  // namespace pagedinfer
