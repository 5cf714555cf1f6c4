#include "text/chat/chat_families.h"
#include "text/chat/chat_strings.h"

namespace pagedinfer {
namespace {

void add_turn(std::string& text, std::string_view role, std::string_view content) {
  text.append("<|im_start|>").append(role).append("\n").append(content).append("<|im_end|>\n");
}

bool is_tool(std::span<const ChatMessage> messages, size_t i) {
  return i < messages.size() && messages[i].role == "tool";
}

// Successive messages of tools are one turn of the user.
void add_tool_response(std::string& text, std::span<const ChatMessage> messages, size_t i) {
  if (i == 0 || !is_tool(messages, i - 1)) text.append("<|im_start|>user");
  text.append("\n<tool_response>\n").append(messages[i].content).append("\n</tool_response>");
  if (!is_tool(messages, i + 1)) text.append("<|im_end|>\n");
}

// The index of the last message of the user that is not the answer of a tool.
size_t last_query(std::span<const ChatMessage> messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const std::string_view content = messages[i].content;
    if (messages[i].role == "user" &&
        !(content.starts_with("<tool_response>") && content.ends_with("</tool_response>"))) {
      return i;
    }
  }
  return messages.size() - 1;
}

struct Answer {
  std::string_view thoughts, speech;
};

Answer split_answer(const ChatMessage& message) {
  const std::string_view content = message.content;
  if (message.reasoning) return {*message.reasoning, content};
  if (content.find("</think>") == content.npos) return {"", content};
  return {strip_newlines_left(after_last(before_first(content, "</think>"), "<think>")),
          strip_newlines_left(after_last(content, "</think>"))};
}

}  // namespace

// Renders messages of every role alike.
RenderedChat render_chatml(const Chat& chat, const ChatWords&) {
  std::string text;
  for (const ChatMessage& message : chat.messages) add_turn(text, message.role, message.content);
  if (chat.add_generation_prompt) text.append("<|im_start|>assistant\n");
  return {text};
}

bool qwen_shows(std::string_view role) {
  return role == "system" || role == "user" || role == "assistant" || role == "tool";
}

// Inserts a default system message if there is none.
RenderedChat render_qwen2_5(const Chat& chat, const ChatWords&) {
  const std::span<const ChatMessage> messages = chat.messages;
  std::string text;
  if (messages[0].role != "system") {
    add_turn(text, "system",
             "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = messages[i].role;
    if (role == "tool") {
      add_tool_response(text, messages, i);
    } else if (qwen_shows(role)) {
      add_turn(text, role, messages[i].content);
    }
  }
  if (chat.add_generation_prompt) text.append("<|im_start|>assistant\n");
  return {text};
}

// Leaves out the assistant's reasoning before the last question.
RenderedChat render_qwen3(const Chat& chat, const ChatWords&) {
  const std::span<const ChatMessage> messages = chat.messages;
  const size_t query = last_query(messages);
  std::string text;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = messages[i].role;
    if (role == "tool") {
      add_tool_response(text, messages, i);
    } else if (role == "assistant") {
      const auto [thoughts, speech] = split_answer(messages[i]);
      std::string content(speech);
      if (i > query && (i + 1 == messages.size() || !thoughts.empty())) {
        content.assign("<think>\n").append(strip_newlines(thoughts)).append("\n</think>\n\n");
        content.append(strip_newlines_left(speech));
      }
      add_turn(text, role, content);
    } else if (qwen_shows(role)) {
      add_turn(text, role, messages[i].content);
    }
  }
  if (chat.add_generation_prompt) {
    text.append("<|im_start|>assistant\n");
    if (chat.enable_thinking == false) text.append("<think>\n\n</think>\n\n");
  }
  return {text};
}

}  // namespace pagedinfer
