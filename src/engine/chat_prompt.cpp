#include "engine/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"

namespace pagedinfer {
namespace {

ChatPrompt failed(const char* code, std::string message) {
  return {.error = {code, std::move(message)}};
}

bool is_system(const ChatMessage& message) { return message.role == "system"; }

Chat complete(const RequestDraft& draft, const ChatSettings& settings) {
  Chat chat = draft.chat;
  if (draft.prompt) chat.messages = {{.role = "user", .content = *draft.prompt}};
  if (settings.system && std::none_of(chat.messages.begin(), chat.messages.end(), is_system)) {
    chat.messages.insert(chat.messages.begin(), {.role = "system", .content = *settings.system});
  }
  return chat;
}

}  // namespace

ChatSettings make_chat_settings(const Config& config, const std::string& model_dir,
                                const Tokenizer* tokenizer) {
  ChatSettings chat = {
      .format = read_chat_format(model_dir, config.chat_template, config.chat_date),
      .wrap_prompts = config.chat,
      .system = config.system};
  chat.end_of_turn = find_end_of_turn(chat.format, tokenizer);
  return chat;
}

void check_chat(const ChatSettings& settings, const std::string& model_dir,
                const Tokenizer* tokenizer) {
  if (!settings.wrap_prompts) return;
  if (settings.format.known == nullptr) {
    throw Error(fmt::format("--chat: {}: {}", model_dir, settings.format.problem));
  }
  if (tokenizer == nullptr) throw Error(fmt::format("--chat: {} has no tokenizer", model_dir));
}

std::optional<TokenId> find_end_of_turn(const ChatFormat& format, const Tokenizer* tokenizer) {
  if (format.known == nullptr || tokenizer == nullptr) return std::nullopt;
  const std::string_view named = format.known->end_of_turn;
  return tokenizer->find_token(named.empty() ? format.words.eos : named);
}

bool is_chat(const RequestDraft& draft, const ChatSettings& settings) {
  return draft.has_messages || (draft.prompt && settings.wrap_prompts);
}

ChatPrompt make_chat_prompt(const RequestDraft& draft, const ChatSettings& settings) {
  CHECK(is_chat(draft, settings));
  const ChatTemplate* known = settings.format.known;
  if (known == nullptr) return failed("no_chat_template", settings.format.problem);
  if (draft.has_messages && draft.chat.messages.empty()) {
    return failed("empty_prompt", "messages is an empty list");
  }
  const Chat chat = complete(draft, settings);
  for (const ChatMessage& message : chat.messages) {
    if (known->shows(message.role)) continue;
    return failed("invalid_messages",
                  fmt::format("the chat template {} leaves out messages of the role {}",
                              known->name, message.role));
  }
  if (chat.enable_thinking.value_or(false) && !known->thinks) {
    return failed("unsupported",
                  fmt::format("chat_template_kwargs.enable_thinking: found true; the chat template "
                              "{} has no thinking to switch",
                              known->name));
  }
  RenderedChat rendered = known->render(chat, settings.format.words);
  if (rendered.refused()) {
    return failed("invalid_messages", fmt::format("the chat template {} refuses the messages: {}",
                                                  known->name, rendered.refusal));
  }
  // A template that begins with the token, whose text no file tells, leaves it to the tokenizer.
  const bool add_bos = known->adds_bos && settings.format.words.bos.empty();
  return {.text = std::move(rendered.text), .add_bos = add_bos ? AddBos::kYes : AddBos::kNo};
}

}  // namespace pagedinfer
