#include "text/chat/render_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/characters.h"
#include "jinja/from_json.h"
#include "jinja/value.h"

namespace pagedinfer {

using jinja::Dict;
using jinja::MarkedText;
using jinja::TemplateError;
using jinja::Value;

namespace {

// The names of a message's reasoning, the one that counts first.
constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

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

// The messages of a conversation, with the message `system` in front if none is the system's.
// Fields that are null are left out, and reasoning stands under each of its names, as transformers
// has it. People wrote the texts. REQUIRES: chat.messages is a list of objects. Throws
// TemplateError if it is nested too deep.
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

Value message_value(const MessageText& given) {
  const std::string_view text = given.text;
  MarkedText content;
  size_t done = 0;
  for (const TextRange& part : given.written) {
    content.add(text.substr(done, part.begin - done), /*marked=*/false);
    content.add(text.substr(part.begin, part.end - part.begin), /*marked=*/true);
    done = part.end;
  }
  content.add(text.substr(done), /*marked=*/false);
  Dict message;
  message.set("role", Value::string(given.role));
  message.set("content", Value::string(std::move(content)));
  return Value::dict(std::move(message));
}

// The tag is inserted after the continued text. It is cut off again with everything after it.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kBareTag = kTag.substr(0, kTag.size() - 1);
constexpr std::string_view kNoEffort =
    "none";  // the reasoning_effort of a model that does not think

std::string_view strip(std::string_view text) {
  return jinja::strip_left(jinja::strip_right(text));
}

Value tagged(const Value& text) {
  MarkedText content = text.marked();
  content.add(kTag, /*marked=*/false);
  return Value::string(std::move(content));
}

Dict changed(const Dict& dict, std::string_view name, const Value& value) {
  Dict copy = dict;
  copy.set(name, value);
  return copy;
}

// The message with the tag after the text of the field. `continued` becomes that text.
Value tag_field(const Value& message, std::string_view field, std::string_view template_text,
                std::string& continued) {
  const Value* const found = message.entries().find(field);
  if (found == nullptr || found->is_none()) {
    throw TemplateError(fmt::format("the last message has no {} to continue", field));
  }
  std::vector<std::string_view> names = {field};
  const bool is_reasoning = std::ranges::find(kReasoning, field) != std::end(kReasoning);
  if (is_reasoning && found->is_string()) {
    names.clear();
    for (const std::string_view name : kReasoning) {
      const Value* const other = message.entries().find(name);
      const bool is_same = other != nullptr && other->is_string() && other->text() == found->text();
      if (is_same) names.push_back(name);
    }
  }
  if (std::ranges::none_of(names, [&](std::string_view name) {
        return template_text.find(name) != std::string_view::npos;
      })) {
    throw TemplateError(
        fmt::format("the template does not read {}, which is to be continued", field));
  }
  if (found->is_string()) {
    continued = found->text();
    Dict copy = message.entries();
    const Value value = tagged(*found);
    for (const std::string_view name : names) copy.set(name, value);
    return Value::dict(std::move(copy));
  }
  std::vector<Value> parts;
  if (found->is(jinja::Kind::kList)) parts = found->items();
  for (size_t i = parts.size(); i-- > 0;) {
    if (!parts[i].is(jinja::Kind::kDict)) continue;
    const Value* const text = parts[i].entries().find("text");
    if (text == nullptr || !text->is_string()) continue;
    continued = text->text();
    parts[i] = Value::dict(changed(parts[i].entries(), "text", tagged(*text)));
    return Value::dict(changed(message.entries(), field, Value::list(std::move(parts))));
  }
  throw TemplateError(fmt::format("the last message has no text in {} to continue", field));
}

// Where the text is cut off so that it ends with what is to be continued.
size_t place_of_tag(std::string_view text, std::string_view continued) {
  const size_t place = text.rfind(kBareTag);
  if (place == std::string_view::npos || text.find(strip(continued)) == std::string_view::npos) {
    throw TemplateError("the template leaves out the text that is to be continued");
  }
  // Where the space of the tag is gone, the template has trimmed the text.
  const bool is_whole = text.substr(place).starts_with(kTag);
  return is_whole ? place : jinja::strip_right(text.substr(0, place)).size();
}

Value list_or_none(const std::string& json) {
  return json.empty() ? Value::none() : jinja::from_json(json, /*marked=*/true);
}

// The variable by which a template lets a line say whether the model thinks; "" if it has none.
std::string_view switch_of_thoughts(const jinja::Template& parsed) {
  for (const char* const name : {"enable_thinking", "thinking"}) {
    if (parsed.reads(name)) return name;
  }
  return "";
}

// The template of a conversation with these tools; null if there is none that can be rendered.
const jinja::Template* template_of(const ChatFormat& format, const Chat& chat) {
  const TemplateSource* const source = choose_template(format.sources, !chat.tools.empty());
  if (source == nullptr) return nullptr;
  const auto& parsed = format.templates[static_cast<size_t>(source - format.sources.data())];
  return parsed ? &*parsed : nullptr;
}

// Sets the template's variables for settings that clients give in the words of the OpenAI API.
void set_client_settings(const Chat& chat, const jinja::Template& parsed, Dict& variables) {
  const auto set = [&](std::string_view name, const std::string& word) {
    variables.set(name, Value::string(jinja::marked_text(word, /*marked=*/true)));
  };
  const std::string_view thinks = switch_of_thoughts(parsed);
  if (!chat.verbosity.empty()) set("verbosity", chat.verbosity);
  if (chat.reasoning_effort.empty()) return;
  if (parsed.reads("reasoning_effort")) {
    set("reasoning_effort", chat.reasoning_effort);
  } else if (!thinks.empty()) {
    variables.set(thinks, Value::boolean(chat.reasoning_effort != kNoEffort));
  }
}

Dict variables_of(const ChatFormat& format, const Chat& chat, const jinja::Template& parsed,
                  std::vector<Value> messages) {
  Dict variables;
  set_client_settings(chat, parsed, variables);
  for (const auto& [name, spelling] : format.tokens) variables.set(name, Value::string(spelling));
  if (!chat.template_arguments.empty()) {
    const Value arguments = jinja::from_json(chat.template_arguments, /*marked=*/true);
    for (const auto& [name, value] : arguments.entries().entries()) {
      variables.set(name.text(), value);
    }
  }
  variables.set("messages", Value::list(std::move(messages)));
  variables.set("tools", list_or_none(chat.tools));
  variables.set("documents", list_or_none(chat.documents));
  variables.set("add_generation_prompt", Value::boolean(chat.add_generation_prompt));
  return variables;
}

std::string message_of(const TemplateError& error, const TemplateSource& source) {
  using Reason = TemplateError::Reason;
  if (error.reason == Reason::kRaised) {
    return fmt::format("the chat template refuses the messages: {}", error.what());
  }
  if (error.line == 0 && error.reason != Reason::kLimit) return error.what();  // of the messages
  return fmt::format("the chat template ({}) fails{}: {}", location_of(source),
                     error.line > 0 ? fmt::format(" at its line {}", error.line) : "",
                     error.what());
}

}  // namespace

std::vector<std::string_view> unread_settings(const ChatFormat* format, const Chat& chat) {
  const jinja::Template* const parsed = format == nullptr ? nullptr : template_of(*format, chat);
  std::vector<std::string_view> unread;
  const bool asks = !chat.reasoning_effort.empty() && chat.reasoning_effort != kNoEffort;
  const bool has_switch = parsed != nullptr && (parsed->reads("reasoning_effort") ||
                                                !switch_of_thoughts(*parsed).empty());
  if (asks && !has_switch) unread.emplace_back("reasoning_effort");
  const bool reads_verbosity = parsed != nullptr && parsed->reads("verbosity");
  if (!chat.verbosity.empty() && !reads_verbosity) unread.emplace_back("verbosity");
  return unread;
}

namespace {

// `make_messages` gives the values of the messages, and may throw TemplateError.
template <class MakeMessages>
Result<RenderedChat> render(const ChatFormat& format, const Chat& chat,
                            const MakeMessages& make_messages) {
  const TemplateSource* const source = choose_template(format.sources, !chat.tools.empty());
  if (source == nullptr) return {"no_chat_template", format.problem};
  const auto place = static_cast<size_t>(source - format.sources.data());
  const auto& parsed = format.templates[place];
  if (!parsed) return {"no_chat_template", format.faults[place]};
  try {
    std::string continued;
    std::vector<Value> messages = make_messages();
    if (!chat.continued_field.empty()) {
      messages.back() = tag_field(messages.back(), chat.continued_field, source->text, continued);
    }
    jinja::Rendered rendered =
        parsed->render(variables_of(format, chat, *parsed, std::move(messages)), format.today);
    RenderedChat result = {.text = std::move(rendered.text), .template_text = source->text};
    if (!chat.continued_field.empty()) {
      result.text.resize(place_of_tag(result.text, continued));
    }
    for (const jinja::Span& span : rendered.from_values) {
      const size_t end = std::min(span.end, result.text.size());
      if (span.begin < end) result.written.push_back({span.begin, end});
    }
    return result;
  } catch (const TemplateError& error) {
    return {"invalid_messages", message_of(error, *source)};
  }
}

}  // namespace

Result<RenderedChat> render_chat(const ChatFormat& format, const Chat& chat,
                                 const std::optional<std::string>& system) {
  return render(format, chat, [&] { return message_values(chat, system); });
}

Result<RenderedChat> render_chat(const ChatFormat& format, const Chat& chat,
                                 std::span<const MessageText> messages) {
  return render(format, chat, [&] {
    std::vector<Value> values;
    for (const MessageText& message : messages) values.push_back(message_value(message));
    return values;
  });
}

}  // namespace pagedinfer
