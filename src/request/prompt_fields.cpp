#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "request/line_fields.h"
#include "settings/values.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// Reads a list of prompts, which are strings or lists of token ids.
void read_prompts(RequestFields& fields, dom::array list, RequestDraft& draft) {
  if (list.size() > size_t{kMaxPrompts}) {
    return fields.refuse_found(fmt::format("{}prompt", fields.where()),
                               fmt::format("a list of {} prompts", list.size()),
                               fmt::format("at most {}", kMaxPrompts));
  }
  const bool in_words = list.at(0).is_string();
  std::vector<PromptDraft> prompts;
  for (const dom::element item : list) {
    PromptDraft& prompt = prompts.emplace_back();
    std::string_view text;
    if (!in_words) {
      fields.read_token_ids(key("prompt"), item, prompt.token_ids);
    } else if (item.get(text) == simdjson::SUCCESS) {
      prompt.text.emplace(text);
    } else {
      const auto path = fmt::format("{}prompt[{}]", fields.where(), prompts.size() - 1);
      fields.refuse_value(path, item, "a string");
    }
    if (fields.failed()) return;
  }
  draft.prompt = std::move(prompts.front().text);
  draft.prompt_token_ids = std::move(prompts.front().token_ids);
  prompts.erase(prompts.begin());
  draft.more = std::move(prompts);
}

void read_words(RequestFields& fields, RequestDraft& draft, bool may_be_list) {
  constexpr int kPrompt = key("prompt");
  if (fields.failed()) return;
  const dom::element value = fields.at(kPrompt);
  dom::array list;
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    draft.prompt.emplace(text);
  } else if (!may_be_list) {
    fields.refuse(kPrompt, "a string");
  } else if (value.get(list) != simdjson::SUCCESS) {
    fields.refuse(kPrompt, "a string, a list of strings or a list of token ids");
  } else if (list.size() > 0 && (list.at(0).is_string() || list.at(0).is_array())) {
    read_prompts(fields, list, draft);
  } else {
    fields.read_token_ids(kPrompt, value, draft.prompt_token_ids);
  }
}

void read_truncation(RequestFields& fields, std::optional<int>& result) {
  constexpr int kTruncate = key("truncate_prompt_tokens");
  if (!fields.asks(kTruncate)) return;
  int64_t value = 0;
  if (fields.at(kTruncate).get(value) != simdjson::SUCCESS || value == 0 || value < -1 ||
      value > kMaxCount) {
    return fields.refuse(kTruncate, fmt::format("an integer from 1 to {}, or -1", kMaxCount));
  }
  result = static_cast<int>(value);
}

}  // namespace

void read_prompt(RequestFields& fields, RequestDraft& draft, PromptForm form) {
  constexpr int kPrompt = key("prompt"), kTokenIds = key("prompt_token_ids");
  constexpr int kMessages = key("messages");
  if (fields.has(kTokenIds)) {
    fields.read_token_ids(kTokenIds, fields.at(kTokenIds), draft.prompt_token_ids);
  }
  const bool words = fields.has(kPrompt), ids = !draft.prompt_token_ids.empty();
  const bool messages = fields.has(kMessages) && !(fields.at(kMessages).is_array() &&
                                                   dom::array(fields.at(kMessages)).size() == 0);
  const bool chat = form == PromptForm::kChat;
  if (words + ids + messages > 1) {
    fields.refuse("ambiguous_prompt",
                  fmt::format("{0}{1}, {0}prompt_token_ids and {0}messages: found "
                              "more than one of them, expected one",
                              fields.where(), fields.name_of(kPrompt)));
  } else if (chat && !fields.has(kMessages)) {
    fields.refuse(
        "missing_prompt",
        fmt::format("{}messages: found nothing, expected a list of messages", fields.where()));
  } else if (messages && form == PromptForm::kCompletion) {
    fields.refuse_found(fields.path_of(kMessages), "messages",
                        "them with the url \"/v1/chat/completions\"");
  } else if (messages || chat) {
    draft.has_messages = true;
    read_messages(fields, draft.chat);
  } else if (words) {
    read_words(fields, draft, form == PromptForm::kCompletion);
  } else if (!fields.has(kTokenIds)) {
    fields.refuse("missing_prompt",
                  fmt::format("{0}{1}: found neither it nor {0}prompt_token_ids{2}, "
                              "expected one of them",
                              fields.where(), fields.name_of(kPrompt),
                              form == PromptForm::kPlain ? " nor messages" : ""));
  }
  read_template_settings(fields, draft.chat);
  if (fields.asks(key("add_special_tokens"))) {
    fields.read_flag(key("add_special_tokens"), draft.add_special_tokens.emplace());
  }
  if (fields.asks(key("escape_special"))) {
    fields.read_flag(key("escape_special"), draft.escape_special.emplace());
  }
  read_truncation(fields, draft.truncate_prompt_tokens);
  fields.read_flag(key("echo"), draft.echo);
  if (fields.asks(key("prompt_logprobs"))) {
    fields.read_count(key("prompt_logprobs"), draft.num_prompt_log_probs);
  }
}

}  // namespace pagedinfer
