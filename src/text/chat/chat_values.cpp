#include "text/chat/chat_values.h"

#include <algorithm>
#include <utility>

#include "jinja/from_json.h"

namespace pagedinfer {

using jinja::Dict;
using jinja::Value;

namespace {

Value message_value(const Dict& given) {
  const Value* reasoning = nullptr;
  for (const std::string_view name : kReasoning) {
    const Value* const found = given.find(name);
    if (reasoning == nullptr && found != nullptr && !found->is_none()) reasoning = found;
  }
  Dict message;
  if (reasoning != nullptr) message.set("thinking", *reasoning);
  for (const auto& [key, item] : given.entries()) {
    if (!item.is_none()) message.set(key.text(), item, /*marked=*/true);
  }
  if (reasoning != nullptr) message.set(kReasoning[0], *reasoning);
  return Value::dict(std::move(message));
}

bool is_system(const Value& message) {
  const Value* const role = message.entries().find("role");
  return role != nullptr && role->is_string() && role->text() == "system";
}

}  // namespace

std::vector<Value> message_values(const Chat& chat, const std::optional<std::string>& system) {
  const Value given = jinja::from_json(chat.messages, /*marked=*/true);
  std::vector<Value> messages;
  for (const Value& message : given.items()) messages.push_back(message_value(message.entries()));
  if (system && std::none_of(messages.begin(), messages.end(), is_system)) {
    Dict message;
    message.set("role", Value::string("system"));
    message.set("content", Value::string(*system, /*marked=*/true));
    messages.insert(messages.begin(), Value::dict(std::move(message)));
  }
  return messages;
}

}  // namespace pagedinfer
