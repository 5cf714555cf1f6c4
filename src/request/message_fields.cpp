#include "request/message_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

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

void read_content(RequestFields& fields, dom::element value, const std::string& path,
                  ChatMessage& message) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    message.content = text;
    message.parts.clear();
    return;
  }
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS || list.size() == 0) {
    return fields.refuse_value(path, value, "a string or a list of texts");
  }
  message.content.clear();
  message.parts.clear();
  for (const dom::element part : list) {
    const std::string place = fmt::format("{}[{}]", path, message.parts.size());
    std::string_view type;
    if (part["type"].get(type) != simdjson::SUCCESS) {
      return fields.refuse_value(place, part, R"({"type": "text", "text": ...})");
    }
    if (type != "text") {
      return fields.refuse(
          "unsupported",
          fmt::format("{}.type: found {}; this version supports text only", place, quote(type)));
    }
    if (part["text"].get(text) != simdjson::SUCCESS) {
      return fields.refuse_value(place, part, R"({"type": "text", "text": ...})");
    }
    if (!message.parts.empty()) message.content += '\n';
    message.content += text;
    message.parts.emplace_back(text);
  }
}

void read_message(RequestFields& fields, dom::element value, const std::string& path,
                  ChatMessage& message) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return fields.refuse_value(path, value, "an object with role and content");
  }
  bool has_content = false;
  for (const auto [name, item] : object) {
    const auto read_text = [&, key = name, given = item](auto& text) {
      std::string_view found;
      if (given.get(found) != simdjson::SUCCESS) {
        fields.refuse_value(fmt::format("{}.{}", path, key), given, "a string");
      }
      text = found;
    };
    if (item.is_null()) continue;
    if (name == "role") {
      if (!is_role(item)) {
        const auto expected = "system, developer, user, assistant or tool";
        return fields.refuse_value(path + ".role", item, expected);
      }
      read_text(message.role);
    } else if (name == "content") {
      has_content = true;
      read_content(fields, item, path + ".content", message);
    } else if (name == "reasoning_content") {
      read_text(message.reasoning);
    } else if (name == "tool_call_id") {
      read_text(message.tool_call_id);
    } else if (name == "tool_calls" || name == "function_call") {
      if (is_empty_list(item)) continue;
      return fields.refuse_unsupported(fmt::format("{}.{}", path, name), item);
    } else if (name != "name") {  // which no template shows
      fields.add_unknown_key(name);
    }
  }
  for (const auto& [is_there, name] :
       {std::pair(!message.role.empty(), "role"), std::pair(has_content, "content")}) {
    if (is_there) continue;
    fields.refuse("invalid_value",
                  fmt::format("{}.{}: found nothing, expected a string", path, name));
  }
}

}  // namespace

void read_messages(RequestFields& fields, Chat& chat) {
  constexpr int kMessages = key("messages");
  dom::array list;
  if (fields.failed()) return;
  if (fields.at(kMessages).get(list) != simdjson::SUCCESS) {
    return fields.refuse(kMessages, "a list of messages");
  }
  chat.messages.reserve(list.size());
  for (const dom::element value : list) {
    const auto path = fmt::format("{}messages[{}]", fields.where(), chat.messages.size());
    read_message(fields, value, path, chat.messages.emplace_back());
    if (fields.failed()) return;
  }
}

void read_template_settings(RequestFields& fields, Chat& chat) {
  constexpr int kArguments = key("chat_template_kwargs");
  fields.read_flag(key("add_generation_prompt"), chat.add_generation_prompt);
  if (!fields.asks(kArguments)) return;
  dom::object settings;
  if (fields.at(kArguments).get(settings) != simdjson::SUCCESS) {
    return fields.refuse(kArguments, "an object");
  }
  for (const auto [name, value] : settings) {
    const auto path = fmt::format("{}chat_template_kwargs.{}", fields.where(), shorten(name));
    bool on = false;
    if (value.is_null()) continue;
    if (name != "enable_thinking") {
      fields.refuse_unsupported(path, value);
    } else if (value.get(on) != simdjson::SUCCESS) {
      fields.refuse_value(path, value, "true or false");
    } else {
      chat.enable_thinking = on;
    }
  }
}

}  // namespace pagedinfer
