#include "intake/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "text/chat/end_of_turn.h"

namespace pagedinfer {
namespace {

// All of the text counts as written by people.
MessageText written_message(std::string role, std::string text) {
  return {.role = std::move(role), .text = text, .written = {{0, text.size()}}};
}

// The conversation of a line that has no messages in JSON.
Result<std::vector<MessageText>> messages_of(const RequestDraft& draft,
                                             const ChatSettings& settings) {
  if (!draft.row) return std::vector{written_message("user", *draft.prompt)};
  Result<std::vector<MessageText>> made = settings.rows->render(*draft.row, settings.format.today);
  if (!made) return made;
  for (MessageText& message : *made) {
    if (settings.escape_special) message.written = {{0, message.text.size()}};
    if (!settings.rows->makes_messages()) message.role = "user";
  }
  return made;
}

// Adds the run's system message unless there is one.
void add_system(std::vector<MessageText>& messages, const RequestDraft& draft,
                const ChatSettings& settings) {
  if (!settings.system || std::ranges::count(messages, "system", &MessageText::role) > 0) return;
  MessageText system = written_message("system", *settings.system);
  if (draft.row && !settings.escape_special) system.written.clear();
  messages.insert(messages.begin(), std::move(system));
}

}  // namespace

std::optional<RowTemplate> row_template_of(const Config& config) {
  if (config.prompt_template) return RowTemplate::of_prompt(*config.prompt_template);
  if (config.message_template.empty()) return std::nullopt;
  return RowTemplate::of_messages(config.message_template);
}

ChatSettings make_chat_settings(const Config& config, const ModelStore& model,
                                const Tokenizer* tokenizer) {
  ChatSettings chat = {.format = read_chat_format(model, config.chat_template, config.chat_date),
                       .rows = row_template_of(config),
                       .wrap_prompts = config.chat,
                       .system = config.system,
                       .escape_special = config.escape_special};
  chat.ends_of_turn = find_ends_of_turn(chat.format, tokenizer);
  if (tokenizer != nullptr) chat.thoughts = thought_marks(*tokenizer);
  return chat;
}

void check_chat(const ChatSettings& settings, const ModelStore& model, const Tokenizer* tokenizer) {
  if (!settings.wrap_prompts) return;
  if (!settings.format.problem.empty()) {
    throw Error(fmt::format("--chat: {}: {}", model.path(), settings.format.problem));
  }
  if (tokenizer == nullptr) throw Error(fmt::format("--chat: {} has no tokenizer", model.path()));
}

std::vector<TokenId> find_ends_of_turn(const ChatFormat& format, const Tokenizer* tokenizer) {
  std::vector<TokenId> ends;
  if (tokenizer == nullptr || !format.problem.empty()) return ends;
  const std::string_view eos = format.token("eos_token");
  const auto named = eos.empty() ? std::nullopt : tokenizer->find_token(eos);
  for (const auto& end : {named, probe_end_of_turn(format, *tokenizer)}) {
    if (end && std::ranges::find(ends, *end) == ends.end()) ends.push_back(*end);
  }
  std::ranges::sort(ends);
  return ends;
}

bool is_chat(const RequestDraft& draft, const ChatSettings& settings) {
  if (draft.row && settings.rows->makes_messages()) return true;
  return draft.has_messages || ((draft.prompt || draft.row) && settings.wrap_prompts);
}

Result<RenderedChat> make_prompt_text(const RequestDraft& draft, const ChatSettings& settings) {
  const bool converses = is_chat(draft, settings);
  CHECK(converses || draft.row);
  if (converses && settings.format.sources.empty()) {
    return {"no_chat_template", settings.format.problem};
  }
  if (draft.has_messages && draft.chat.messages == "[]") {
    return {"empty_prompt", "messages is an empty list"};
  }
  if (draft.has_messages) return render_chat(settings.format, draft.chat, settings.system);
  Result<std::vector<MessageText>> messages = messages_of(draft, settings);
  if (!messages) return std::move(messages.error());
  if (converses) {
    add_system(*messages, draft, settings);
    return render_chat(settings.format, draft.chat, *messages);
  }
  MessageText& prompt = messages->front();
  return RenderedChat{.text = std::move(prompt.text),
                      .written = std::move(prompt.written),
                      .template_text = settings.rows->text()};
}

}  // namespace pagedinfer
