#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "request/line_fields.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// Keys that templates are known to read. Other keys are passed on too, and counted as unknown.
constexpr std::string_view kKnown[] = {"reasoning_content", "reasoning", "thinking",
                                       "tool_call_id",      "name",      "tool_calls",
                                       "function_call"};
// Words in the types of content parts that are not text, as in image_url and input_audio.
constexpr std::string_view kMedia[] = {"image", "audio", "video", "file"};
// Variables that have keys of their own in a line.
constexpr std::string_view kOwnKeys[] = {"messages", "tools", "documents", "add_generation_prompt",
                                         "continue_final_message"};

template <class List>
bool is_in(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool is_media(std::string_view given) {
  std::string type(given);
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  constexpr std::string_view kPrefix = "input_";
  if (type.starts_with(kPrefix)) type.erase(0, kPrefix.size());
  return std::ranges::any_of(kMedia, [&](std::string_view name) { return type.starts_with(name); });
}

// Refuses content that is not text. Otherwise the template decides which content it accepts.
void check_content(RequestFields& fields, dom::element value, const std::string& path) {
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return;
  size_t count = 0;
  for (const dom::element part : list) {
    const std::string place = fmt::format("{}[{}]", path, count++);
    std::string_view type;
    dom::object object;
    if (part.get(object) != simdjson::SUCCESS) continue;
    if (part["type"].get(type) == simdjson::SUCCESS && is_media(type)) {
      return fields.refuse(
          "unsupported",
          fmt::format("{}.type: found {}; this version supports text only", place, quote(type)));
    }
    for (const auto [name, item] : object) {
      if (!is_media(name) || name.starts_with("file") || item.is_null()) continue;
      return fields.refuse(
          "unsupported",
          fmt::format("{}: found the key {}; this version supports text only", place, quote(name)));
    }
  }
}

// Checks that a value is a list of objects.
void check_objects(RequestFields& fields, dom::element value, const std::string& path,
                   std::string_view expected) {
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return fields.refuse_value(path, value, expected);
  size_t count = 0;
  for (const dom::element item : list) {
    const std::string place = fmt::format("{}[{}]", path, count++);
    if (!item.is_object()) return fields.refuse_value(place, item, "an object");
  }
}

void check_message(RequestFields& fields, dom::element value, const std::string& path) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return fields.refuse_value(path, value, "an object with role and content");
  }
  std::string_view role;
  bool has_content = false, has_more = false;
  for (const auto [name, item] : object) {
    if (item.is_null()) continue;
    const std::string place = fmt::format("{}.{}", path, shorten(name));
    if (name == "role") {
      if (item.get(role) != simdjson::SUCCESS || role.empty()) {
        return fields.refuse_value(place, item, "a role, such as user or assistant");
      }
    } else if (name == "content") {
      has_content = true;
      check_content(fields, item, place);
    } else if (!is_in(kKnown, name)) {
      fields.add_unknown_key(name);
    } else {
      has_more = true;
    }
  }
  if (role.empty()) {
    fields.refuse_found(fmt::format("{}.role", path), "nothing", "a string");
  }
  // An assistant's message needs no content if it has thoughts or calls of tools.
  if (!has_content && !(role == "assistant" && has_more)) {
    fields.refuse_found(fmt::format("{}.content", path), "nothing", "a string");
  }
}

// Keeps a list of objects as JSON text.
void read_objects(RequestFields& fields, int key, std::string& json) {
  if (!fields.asks(key)) return;
  check_objects(fields, fields.at(key), fields.path_of(key), "a list of objects");
  json = simdjson::minify(fields.at(key));
}

void read_template_arguments(RequestFields& fields, Chat& chat) {
  constexpr int kArguments = key("chat_template_kwargs");
  if (!fields.asks(kArguments)) return;
  dom::object arguments;
  if (!fields.get(kArguments, arguments, "an object")) return;
  for (const auto field : arguments) {
    if (!is_in(kOwnKeys, field.key)) continue;
    fields.refuse_found(fmt::format("{}.{}", fields.path_of(kArguments), field.key),
                        describe(field.value),
                        fmt::format("it as {}{}", fields.where(), field.key));
  }
  if (arguments.size() > 0) chat.template_arguments = simdjson::minify(arguments);
}

void read_word(RequestFields& fields, int key, std::string& word) {
  std::string_view text;
  if (fields.asks(key) && fields.get(key, text, "a string")) word = text;
}

// continue_final_message: `true` continues the content, a string continues the field of that name.
void read_continuation(RequestFields& fields, Chat& chat) {
  constexpr int kContinue = key("continue_final_message"), kAdd = key("add_generation_prompt");
  fields.read_flag(kAdd, chat.add_generation_prompt);
  if (!fields.asks(kContinue)) return;
  std::string_view field;
  bool on = false;
  if (fields.at(kContinue).get(on) == simdjson::SUCCESS) {
    if (on) chat.continued_field = "content";
  } else if (fields.at(kContinue).get(field) == simdjson::SUCCESS) {
    chat.continued_field = field;
  } else {
    return fields.refuse(kContinue, "true, false or the name of a message's field");
  }
  if (chat.continued_field.empty()) return;
  if (fields.has(kAdd) && chat.add_generation_prompt) {
    return fields.refuse_found(fields.path_of(kAdd),
                               fmt::format("true beside {}", fields.path_of(kContinue)),
                               "one of them");
  }
  chat.add_generation_prompt = false;
}

}  // namespace

void read_messages(RequestFields& fields, Chat& chat) {
  constexpr int kMessages = key("messages");
  dom::array list;
  if (fields.failed() || !fields.get(kMessages, list, "a list of messages")) return;
  size_t count = 0;
  for (const dom::element value : list) {
    check_message(fields, value, fmt::format("{}messages[{}]", fields.where(), count++));
    if (fields.failed()) return;
  }
  chat.messages = simdjson::minify(list);
}

void read_template_settings(RequestFields& fields, Chat& chat) {
  read_objects(fields, key("tools"), chat.tools);
  read_objects(fields, key("documents"), chat.documents);
  read_template_arguments(fields, chat);
  read_word(fields, key("reasoning_effort"), chat.reasoning_effort);
  read_word(fields, key("verbosity"), chat.verbosity);
  read_continuation(fields, chat);
}

}  // namespace pagedinfer
