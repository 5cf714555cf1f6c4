#include "text/chat/end_of_turn.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/render_chat.h"

namespace pagedinfer {
namespace {

// Words that no template writes.
constexpr std::string_view kQuestion = "Qzxa", kAnswer = "Qzxb", kNext = "Qzxc", kLast = "Qzxd",
                           kThought = "Qzxe", kFunction = "Qzxf", kResult = "Qzxg";

std::string message(std::string_view role, std::string_view content, std::string_view more = "") {
  return fmt::format(R"({{"role":"{}","content":"{}"{}}})", role, content, more);
}

std::optional<std::string> rendered(const ChatFormat& format, const std::string& messages,
                                    const std::string& tools = "") {
  Result<RenderedChat> chat = render_chat(
      format,
      {.messages = fmt::format("[{}]", messages), .tools = tools, .add_generation_prompt = false},
      std::nullopt);
  if (!chat) return std::nullopt;
  return std::move(chat->text);
}

std::optional<Tokenizer::AddedPrefix> token_behind(std::string_view text, std::string_view word,
                                                   const Tokenizer& tokenizer) {
  const size_t place = text.rfind(word);
  if (place == std::string_view::npos) return std::nullopt;
  return tokenizer.added_prefix(text.substr(place + word.size()));
}

// Whether the end stands between parts of one turn: of thoughts, speech and the call of a tool.
bool is_inside(std::string_view text, std::string_view end) {
  std::vector<size_t> places;
  for (const std::string_view word : {kThought, kAnswer, kFunction}) {
    if (const size_t place = text.rfind(word); place != std::string_view::npos) {
      places.push_back(place);
    }
  }
  if (places.size() < 2) return false;
  const auto [first, last] = std::ranges::minmax(places);
  return text.substr(first, last - first).find(end) != std::string_view::npos;
}

// Turns with more than speech. Templates that refuse one of them are not asked it.
std::vector<std::string> rich_turns(const ChatFormat& format) {
  const std::string before = message("user", kQuestion) + ",";
  const std::string thought = fmt::format(R"(,"reasoning_content":"{}")", kThought);
  const std::string function = fmt::format(
      R"({{"name":"{}","description":"d","parameters":{{"type":"object","properties":{{}}}}}})",
      kFunction);
  const std::string tools = fmt::format(R"([{{"type":"function","function":{}}}])", function);
  std::vector<std::string> texts;
  const auto add = [&](const std::string& messages, const std::string& with_tools) {
    if (auto text = rendered(format, messages, with_tools)) texts.push_back(std::move(*text));
  };
  add(before + message("assistant", kAnswer, thought), "");
  // Templates read arguments as an object or as text.
  for (const std::string_view arguments : {R"({"a":1})", R"("{\"a\":1}")"}) {
    const std::string calls = fmt::format(
        R"(,"tool_calls":[{{"id":"abcdefghi","type":"function","function":{{"name":"{}","arguments":{}}}}}])",
        kFunction, arguments);
    add(before + message("assistant", kAnswer, thought + calls) + "," +
            message("tool", kResult,
                    fmt::format(R"(,"tool_call_id":"abcdefghi","name":"{}")", kFunction)),
        tools);
  }
  return texts;
}

}  // namespace

std::optional<TokenId> probe_end_of_turn(const ChatFormat& format, const Tokenizer& tokenizer) {
  const auto text =
      rendered(format, message("user", kQuestion) + "," + message("assistant", kAnswer) + "," +
                           message("user", kNext) + "," + message("assistant", kLast));
  if (!text) return std::nullopt;
  const auto end = token_behind(*text, kAnswer, tokenizer);
  const auto last = token_behind(*text, kLast, tokenizer);
  if (!end || !last || end->id != last->id) return std::nullopt;
  const size_t place = text->rfind(kAnswer) + kAnswer.size();
  const std::string spelled = text->substr(place, end->size);
  for (const std::string& turn : rich_turns(format)) {
    if (is_inside(turn, spelled)) return std::nullopt;
  }
  return end->id;
}

}  // namespace pagedinfer
