#include "commands/info/info_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "commands/info/model_info.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "core/json.h"
#include "intake/intake_item.h"
#include "request/input_lines.h"
#include "request/line_arrivals.h"
#include "request/request_parser.h"
#include "settings/values.h"
#include "text/stop_strings.h"

namespace pagedinfer {
namespace {

constexpr FlagOf<InfoConfig> kInfoFlags[] = {
    flag_row(Group::kInfo, "render", field_of<&InfoConfig::render, Kind::kPath>(),
             "Print the prompts of a file instead, as a run would give them to the model.",
             "For a look at what a chat template makes of a file.",
             {.not_empty = "a file, or -", .value = "FILE|-"}),
    flag_row(Group::kInfo, "ids", field_of<&InfoConfig::ids>(),
             "With --render, print token ids instead of text.",
             "For comparing token ids with another program."),
    flag_row(Group::kInfo, "json", field_of<&InfoConfig::json>(),
             "Print JSON: one object for a model, one for each line of --render.", "For scripts."),
};

constexpr std::string_view kTaken[] = {
    "model",  "weights",       "lora",          "dtype",           "quantize",
    "device", "max_model_len", "chat_template", "chat_date",       "escape_special",
    "chat",   "system",        "prompt_field",  "id_field",        "strict",
    "limit",  "input_format",  "json_columns",  "prompt_template", "message_template"};

// Writes to standard output and flushes it. Throws Error if that fails.
void print_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() || std::fflush(stdout) != 0) {
    throw Error("standard output: cannot be written");
  }
}

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
  if (draft.row || is_chat(draft, model.chat)) return make_prompt_text(draft, model.chat)->text;
  return draft.prompt ? *draft.prompt : decoded(request.prompt, model.tokenizer.get());
}

std::vector<ShownPrompt> prompts_of(const RequestDraft& draft, std::vector<Request> requests,
                                    const ModelInfo& model) {
  std::vector<ShownPrompt> prompts;
  for (Request& request : requests) {
    std::string text = prompts.empty() ? prompt_text(draft, request, model)
                                       : decoded(request.prompt, model.tokenizer.get());
    prompts.push_back({std::move(text), std::move(request.prompt)});
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

// Prints for each line of the file `config.render` the prompts as a run would give them to the
// model, or the error that the line would get. Returns 0, or 2 if any line would get an error.
// Throws Error if the file cannot be read or the output cannot be written.
int render_lines(const InfoConfig& config, const ModelInfo& model) {
  const Config& settings = config.config;
  const PromptLimits limits = limits_of(settings, model);
  const Tokenizer* const tokenizer = model.tokenizer.get();
  RequestParser parser(model.defaults, line_rules(settings));
  Config rendered = settings;
  rendered.input = config.render;
  InputLines lines(config.render, choice_of(rendered));
  lines.recognize();
  LineArrivals arrivals;
  bool failed = false;
  while (const auto line = lines.next()) {
    ParsedLine parsed = parser.parse(*line);
    RequestParser::UnknownKeys unread;
    check_line(parsed, arrivals.add(line->text, line->number), model.chat, settings.strict, unread);
    const RequestDraft draft = parsed.request;
    IntakeItem item = prepare_line(std::move(parsed), tokenizer, model.chat, limits);
    if (const auto* const failure = std::get_if<Completion>(&item)) {
      failed = true;
      print_output(shown(failure->head, failure->error, config));
      continue;
    }
    auto& prepared = std::get<PreparedLine>(item);
    print_output(
        shown(prepared.head, prompts_of(draft, std::move(prepared.prompts), model), config));
  }
  return failed ? exit_code::kSomeWrong : exit_code::kDone;
}

}  // namespace

std::span<const FlagOf<InfoConfig>> info_flags() { return kInfoFlags; }

bool is_of_info(const Setting& setting) {
  return std::ranges::find(kTaken, setting.key) != std::end(kTaken);
}

int run_info(const InfoConfig& config) {
  if (config.ids && config.render.empty()) {
    throw Error("--ids: has an effect with --render FILE only; leave it out");
  }
  Config checked = config.config;
  checked.input = std::string("-");  // any input, because check_values() expects one
  check_values(checked);
  const ModelInfo info = describe_model(config.config);
  if (!config.render.empty()) return render_lines(config, info);
  print_output(config.json ? info_json(info) : info_text(info));
  return info.supported() ? exit_code::kDone : exit_code::kFailed;
}

}  // namespace pagedinfer
