#include <doctest/doctest.h>
#include <simdjson.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/support.h"
#include "text/chat/chat_template.h"

using namespace pagedinfer;
namespace dom = simdjson::dom;

namespace {

Chat chat_of(dom::element line) {
  Chat chat;
  for (const dom::element given : dom::array(line["messages"])) {
    ChatMessage& message = chat.messages.emplace_back();
    message.role = std::string_view(given["role"]);
    std::string_view text;
    dom::array parts;
    if (given["content"].get(parts) == simdjson::SUCCESS) {
      for (const dom::element part : parts) {
        if (!message.parts.empty()) message.content += '\n';
        message.content += std::string_view(part["text"]);
        message.parts.emplace_back(std::string_view(part["text"]));
      }
    } else {
      message.content = std::string_view(given["content"]);
    }
    if (given["reasoning_content"].get(text) == simdjson::SUCCESS) message.reasoning = text;
    if (given["tool_call_id"].get(text) == simdjson::SUCCESS) message.tool_call_id = text;
  }
  chat.add_generation_prompt = bool(line["add_generation_prompt"]);
  bool thinking = true;
  if (line["enable_thinking"].get(thinking) == simdjson::SUCCESS) chat.enable_thinking = thinking;
  return chat;
}

ChatWords words_of(std::string_view name) {
  ChatWords words = {.date = "26 Jul 2024"};
  if (name == "llama3") words.bos = "<|begin_of_text|>";
  if (name.starts_with("gemma")) words.bos = "<bos>";
  if (name.starts_with("mistral")) {
    words.bos = "<s>";
    words.eos = "</s>";
  }
  return words;
}

// Renders every line of `path` and returns how many lines of each template there are. The names
// in the file are the keys of `names`, or templates' own.
std::map<std::string, int> check_cases(const std::string& path,
                                       const std::map<std::string, std::string>& names) {
  std::map<std::string, int> counts;
  dom::parser parser;
  dom::document_stream lines;
  const simdjson::padded_string text(read_file(path));
  REQUIRE(parser.parse_many(text).get(lines) == simdjson::SUCCESS);
  for (const dom::element line : lines) {
    std::string name{std::string_view(line["template"])};
    if (const auto other = names.find(name); other != names.end()) name = other->second;
    ++counts[name];
    CAPTURE(simdjson::minify(line));
    const ChatTemplate* known = find_chat_template(name);
    REQUIRE(known != nullptr);
    const RenderedChat rendered = known->render(chat_of(line), words_of(name));
    std::string_view expected;
    if (line["error"].get(expected) == simdjson::SUCCESS) {
      CHECK(rendered.refusal == expected);
    } else {
      CHECK_FALSE(rendered.refused());
      CHECK(rendered.text == std::string_view(line["text"]));
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("chat templates render what transformers renders for own conversations") {
  const auto counts = check_cases(source_dir() + "/tests/data/chat/cases.jsonl", {});
  for (const ChatTemplate& known : chat_templates()) {
    CAPTURE(known.name);
    CHECK(counts.count(std::string(known.name)) == 1);
  }
}

TEST_CASE("chat templates render what the shared reference has, refusals included") {
  const std::string path = shared_data("chat_templates/expected.jsonl");
  if (!std::filesystem::exists(path)) {
    MESSAGE("SKIPPED: no " << path);
    return;
  }
  const auto counts = check_cases(path, {{"Llama-3.2-3B-Instruct", "llama3"},
                                         {"Qwen2.5", "qwen2.5"},
                                         {"Qwen3", "qwen3"},
                                         {"gemma-2", "gemma2"},
                                         {"gemma-3", "gemma3"},
                                         {"Mistral-Nemo", "mistral-nemo"}});
  int total = 0;
  for (const auto& [name, count] : counts) total += count;
  CHECK(total == 273);
}

TEST_CASE("names of chat templates find themselves and nothing else") {
  for (const ChatTemplate& known : chat_templates()) {
    CHECK(find_chat_template(known.name) == &known);
    CHECK(chat_template_names().find(known.name) != std::string::npos);
  }
  for (const char* name : {"", "llama", "llama33", "none", "Qwen3"}) {
    CHECK(find_chat_template(name) == nullptr);
  }
}
