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

}  // namespace

ChatSettings make_chat_settings(const Config& config, const std::string& model_dir,
                                const Tokenizer* tokenizer) {
  ChatSettings chat = {
      .format = read_chat_format(model_dir, config.chat_template, config.chat_date),
      .wrap_prompts = config.chat,
      .system = config.system,
      .escape_special = config.escape_special};
  chat.ends_of_turn = find_ends_of_turn(chat.format, tokenizer);
  if (tokenizer != nullptr) chat.thoughts = thought_marks(*tokenizer);
  return chat;
}

void check_chat(const ChatSettings& settings, const std::string& model_dir,
                const Tokenizer* tokenizer) {
  if (!settings.wrap_prompts) return;
  if (!settings.format.problem.empty()) {
    throw Error(fmt::format("--chat: {}: {}", model_dir, settings.format.problem));
  }
  if (tokenizer == nullptr) throw Error(fmt::format("--chat: {} has no tokenizer", model_dir));
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
  return draft.has_messages || (draft.prompt && settings.wrap_prompts);
}

Result<RenderedChat> make_chat_prompt(const RequestDraft& draft, const ChatSettings& settings) {
  CHECK(is_chat(draft, settings));
  if (settings.format.sources.empty()) {
    return {"no_chat_template", settings.format.problem};
  }
  if (draft.has_messages && draft.chat.messages == "[]") {
    return {"empty_prompt", "messages is an empty list"};
  }
  if (draft.has_messages) return render_chat(settings.format, draft.chat, settings.system);
  std::vector<MessageText> messages;
  if (settings.system) messages.push_back(written_message("system", *settings.system));
  messages.push_back(written_message("user", *draft.prompt));
  return render_chat(settings.format, draft.chat, messages);
}

}  // namespace pagedinfer
