// Conversations: the keys `messages`, `add_generation_prompt` and `chat_template_kwargs`.
#include <fmt/format.h>

#include <algorithm>

#include "request/request_fields.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

bool is_role(dom::element value) {
  std::string_view role;
  return value.get(role) == simdjson::SUCCESS &&
         std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

bool is_empty_list(dom::element value) { return value.is_array() && dom::array(value).size() == 0; }

std::string found_but(const std::string& path, dom::element value, std::string_view expected) {
  return fmt::format("{}: found {}, expected {}", path, describe(value), expected);
}

std::string not_supported(const std::string& path, dom::element value) {
  return fmt::format("{}: found {}; this version does not support it", path, describe(value));
}

}  // namespace

void RequestFields::read_chat(Chat& chat) {
  constexpr int kMessages = key("messages");
  dom::array list;
  if (failed()) return;
  if (at(kMessages).get(list) != simdjson::SUCCESS) return refuse(kMessages, "a list of messages");
  chat.messages.reserve(list.size());
  for (const dom::element value : list) {
    const auto path = fmt::format("{}messages[{}]", where_, chat.messages.size());
    read_message(value, path, chat.messages.emplace_back());
    if (failed()) return;
  }
}

void RequestFields::read_message(dom::element value, const std::string& path,
                                 ChatMessage& message) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return refuse("invalid_value", found_but(path, value, "an object with role and content"));
  }
  bool has_content = false;
  for (const auto [name, item] : object) {
    const auto read_text = [&, key = name, given = item](auto& text) {
      std::string_view found;
      if (given.get(found) != simdjson::SUCCESS) {
        refuse("invalid_value", found_but(fmt::format("{}.{}", path, key), given, "a string"));
      }
      text = found;
    };
    if (item.is_null()) continue;
    if (name == "role") {
      if (!is_role(item)) {
        const auto expected = "system, developer, user, assistant or tool";
        return refuse("invalid_value", found_but(path + ".role", item, expected));
      }
      read_text(message.role);
    } else if (name == "content") {
      has_content = true;
      read_content(item, path + ".content", message);
    } else if (name == "reasoning_content") {
      read_text(message.reasoning);
    } else if (name == "tool_call_id") {
      read_text(message.tool_call_id);
    } else if (name == "tool_calls" || name == "function_call") {
      if (is_empty_list(item)) continue;
      return refuse("unsupported", not_supported(fmt::format("{}.{}", path, name), item));
    } else if (name != "name") {  // which no template shows
      unknown_keys_.push_back(name);
    }
  }
  for (const auto& [is_there, name] :
       {std::pair(!message.role.empty(), "role"), std::pair(has_content, "content")}) {
    if (is_there) continue;
    refuse("invalid_value", fmt::format("{}.{}: found nothing, expected a string", path, name));
  }
}

void RequestFields::read_content(dom::element value, const std::string& path,
                                 ChatMessage& message) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    message.content = text;
    message.parts.clear();
    return;
  }
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS || list.size() == 0) {
    return refuse("invalid_value", found_but(path, value, "a string or a list of texts"));
  }
  message.content.clear();
  message.parts.clear();
  for (const dom::element part : list) {
    const std::string place = fmt::format("{}[{}]", path, message.parts.size());
    std::string_view type;
    if (part["type"].get(type) != simdjson::SUCCESS) {
      return refuse("invalid_value", found_but(place, part, R"({"type": "text", "text": ...})"));
    }
    if (type != "text") {
      return refuse("unsupported", fmt::format("{}.type: found {}; this version supports text only",
                                               place, quote(type)));
    }
    if (part["text"].get(text) != simdjson::SUCCESS) {
      return refuse("invalid_value", found_but(place, part, R"({"type": "text", "text": ...})"));
    }
    if (!message.parts.empty()) message.content += '\n';
    message.content += text;
    message.parts.emplace_back(text);
  }
}

void RequestFields::read_template_settings(Chat& chat) {
  constexpr int kSettings = key("chat_template_kwargs");
  read_flag(key("add_generation_prompt"), chat.add_generation_prompt);
  if (!asks(kSettings)) return;
  dom::object settings;
  if (at(kSettings).get(settings) != simdjson::SUCCESS) return refuse(kSettings, "an object");
  for (const auto [name, value] : settings) {
    const auto path = fmt::format("{}chat_template_kwargs.{}", where_, shorten(name));
    bool on = false;
    if (value.is_null()) continue;
    if (name != "enable_thinking") {
      refuse("unsupported", not_supported(path, value));
    } else if (value.get(on) != simdjson::SUCCESS) {
      refuse("invalid_value", found_but(path, value, "true or false"));
    } else {
      chat.enable_thinking = on;
    }
  }
}

}  // namespace pagedinfer
