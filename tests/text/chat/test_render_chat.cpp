#include <doctest/doctest.h>
#include <simdjson.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/chat_support.h"
#include "text/chat/render_chat.h"

using namespace pagedinfer;
namespace dom = simdjson::dom;

namespace {

// Of each template of the cases the file that renders it, and the tokens it is told.
struct Known {
  std::string file;
  std::vector<std::pair<std::string, std::string>> tokens;
};

std::map<std::string, Known> known_templates() {
  const auto shared = [](const char* name) {
    return shared_data("chat_templates/" + std::string(name) + ".jinja");
  };
  const Known llama = {shared("meta-llama-Llama-3.2-3B-Instruct"),
                       {{"bos_token", "<|begin_of_text|>"}}};
  const Known mistral = {shared("mistralai-Mistral-Nemo-Instruct-2407"),
                         {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
  const Known gemma2 = {shared("google-gemma-2-2b-it"), {{"bos_token", "<bos>"}}};
  const Known gemma3 = {test_template("model_turns"), {{"bos_token", "<bos>"}}};
  const Known ministral3 = {test_template("ministral3"),
                            {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
  const Known qwen2 = {shared("Qwen-Qwen2.5-7B-Instruct"), {}},
              qwen3 = {shared("Qwen-Qwen3-0.6B"), {}};
  return {{"chatml", {test_template("chatml"), {}}},
          {"Llama-3.2-3B-Instruct", llama},
          {"llama3", llama},
          {"Mistral-Nemo", mistral},
          {"mistral-nemo", mistral},
          {"gemma-2", gemma2},
          {"gemma2", gemma2},
          {"gemma-3", gemma3},
          {"gemma3", gemma3},
          {"exaone4", {test_template("exaone4"), {}}},
          {"glm4", {test_template("glm4"), {}}},
          {"harmony", {test_template("harmony"), {}}},
          {"ministral3", ministral3},
          {"Qwen2.5", qwen2},
          {"qwen2.5", qwen2},
          {"Qwen3", qwen3},
          {"qwen3", qwen3}};
}

Chat chat_of(dom::element line) {
  Chat chat = {.messages = simdjson::minify(line["messages"]),
               .add_generation_prompt = bool(line["add_generation_prompt"])};
  dom::element tools;
  if (line["tools"].get(tools) == simdjson::SUCCESS) chat.tools = simdjson::minify(tools);
  std::string_view effort;
  if (line["reasoning_effort"].get(effort) == simdjson::SUCCESS) chat.reasoning_effort = effort;
  bool thinking = true;
  if (line["enable_thinking"].get(thinking) == simdjson::SUCCESS) {
    chat.template_arguments =
        std::string(R"({"enable_thinking":)") + (thinking ? "true}" : "false}");
  }
  return chat;
}

// Renders every line of `path` whose template is there, and returns how many those are.
int check_cases(const std::string& path) {
  int count = 0;
  std::map<std::string, ChatFormat> formats;
  for (const auto& [name, known] : known_templates()) {
    if (!std::filesystem::exists(known.file)) continue;
    formats.emplace(name, format_of(read_file(known.file), known.tokens));
  }
  dom::parser parser;
  dom::document_stream lines;
  const simdjson::padded_string text(read_file(path));
  REQUIRE(parser.parse_many(text).get(lines) == simdjson::SUCCESS);
  for (const dom::element line : lines) {
    const auto format = formats.find(std::string(std::string_view(line["template"])));
    if (format == formats.end()) continue;
    ++count;
    CAPTURE(simdjson::minify(line));
    const Result<RenderedChat> rendered = render_chat(format->second, chat_of(line), std::nullopt);
    std::string_view expected;
    if (line["error"].get(expected) == simdjson::SUCCESS) {
      REQUIRE_FALSE(rendered);
      CHECK(rendered.error().code == "invalid_messages");
      CHECK(rendered.error().message.ends_with(expected));
    } else {
      REQUIRE(rendered);
      CHECK(rendered->text == std::string_view(line["text"]));
    }
  }
  return count;
}

Chat ask(const std::string& messages) { return {.messages = messages}; }

std::string rendered_text(const std::string& source, const Chat& chat,
                          const std::optional<std::string>& system = {}) {
  const Result<RenderedChat> rendered =
      render_chat(format_of(source, {{"bos_token", "<B>"}}), chat, system);
  return rendered ? rendered->text : "error: " + rendered.error().message;
}

const std::string kHi = R"([{"role":"user","content":"Hi"}])";

}  // namespace

TEST_CASE("chat templates render what transformers renders for own conversations") {
  CHECK(check_cases(source_dir() + "/tests/data/chat/cases.jsonl") >= 112);
}

TEST_CASE("what clients say of thoughts reaches the variable that the template has for it") {
  const auto with = [](const std::string& effort, const std::string& arguments = "") {
    Chat chat = ask(kHi);
    chat.reasoning_effort = effort;
    chat.verbosity = effort.empty() ? "" : "low";
    chat.template_arguments = arguments;
    return chat;
  };
  const std::string levels = "{{ reasoning_effort|default('medium') }} {{ verbosity }}";
  CHECK(rendered_text(levels, with("high")) == "high low");
  CHECK(rendered_text(levels, with("none")) == "none low");
  CHECK(rendered_text(levels, with("")) == "medium ");
  CHECK(rendered_text(levels, with("high", R"({"reasoning_effort":"low"})")) == "low low");
  // As Qwen 3 and Granite have it.
  for (const std::string name : {"enable_thinking", "thinking"}) {
    const std::string thinks = "{{ " + name + " is defined and " + name + " }}";
    CHECK(rendered_text(thinks, with("low")) == "True");
    CHECK(rendered_text(thinks, with("none")) == "False");
    CHECK(rendered_text(thinks, with("low", "{\"" + name + "\":false}")) == "False");
    CHECK(rendered_text(thinks + "{{ reasoning_effort }}", with("low")) == "Falselow");
  }
  const auto unread = [&](const std::string& source, const std::string& effort) {
    const ChatFormat format = format_of(source, {});
    return unread_settings(&format, with(effort)).size();
  };
  CHECK(unread(levels, "high") == 0);
  CHECK(unread("{{ message.verbosity }}{{ ns.thinking }}", "high") == 2);
  CHECK(unread("{% macro m() %}{{ verbosity }}{{ thinking }}{% endmacro %}{{ m() }}", "high") == 0);
  CHECK(unread("{% set verbosity = 1 %}{{ verbosity }}", "none") == 1);  // asks for no thoughts
  CHECK(unread_settings(nullptr, with("high")).size() == 2);
  CHECK(unread_settings(nullptr, with("")).empty());
}

TEST_CASE("chat templates render what the shared reference has, refusals included") {
  const std::string path = shared_data("chat_templates/expected.jsonl");
  if (!std::filesystem::exists(path)) {
    MESSAGE("SKIPPED: no " << path);
    return;
  }
  CHECK(check_cases(path) == 273);
}

TEST_CASE("a template is told what transformers tells it") {
  Chat chat = ask(kHi);
  CHECK(rendered_text("{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}",
                      chat) == "True True True");
  chat.tools = R"([{"type":"function","function":{"name":"f","x":1.50,"y":[1,-2,null,true]}}])";
  chat.documents = R"([{"title":"t"}])";
  CHECK(
      rendered_text("{{ tools | tojson }} {{ documents[0].title }}", chat) ==
      R"([{"type": "function", "function": {"name": "f", "x": 1.5, "y": [1, -2, null, true]}}] t)");
  CHECK(rendered_text("{{ bos_token }}{{ eos_token }}", chat) == "<B>");
  chat.template_arguments = R"({"bos_token":"<C>","deep":{"a":[7]},"no":null})";
  CHECK(rendered_text("{{ bos_token }} {{ deep.a[0] }} {{ no is none }}", chat) == "<C> 7 True");
  CHECK(rendered_text("{{ strftime_now('%d %b %Y') }}", chat) == "26 Jul 2024");
}

TEST_CASE("a message has no null fields, and its reasoning under every name") {
  const std::string source = "{{ messages[0] | tojson }}";
  CHECK(rendered_text(source,
                      ask(R"([{"role":"user","content":"x","name":null,"own":{"a":null}}])")) ==
        R"({"role": "user", "content": "x", "own": {"a": null}})");
  CHECK(rendered_text(source, ask(R"([{"role":"assistant","reasoning":"r"}])")) ==
        R"({"thinking": "r", "role": "assistant", "reasoning": "r", "reasoning_content": "r"})");
  CHECK(rendered_text(source, ask(R"([{"role":"a","thinking":"t","reasoning_content":"r"}])")) ==
        R"({"thinking": "t", "role": "a", "reasoning_content": "r"})");
}

TEST_CASE("the system's text of the run stands in front unless a message is the system's") {
  const std::string source = "{% for m in messages %}{{ m.role }}:{{ m.content }} {% endfor %}";
  CHECK(rendered_text(source, ask(kHi), "be brief") == "system:be brief user:Hi ");
  CHECK(rendered_text(source, ask(R"([{"role":"system","content":"s"}])"), "be brief") ==
        "system:s ");
}

// The cases are what transformers does with the same templates and messages.
TEST_CASE("a continued message ends the prompt as it stands, or trimmed") {
  const auto continued = [](const std::string& source, const std::string& content,
                            const std::string& field = "content") {
    Chat chat = ask(R"([{"role":"user","content":"q"},{"role":"assistant",)" + content + "}]");
    chat.continued_field = field;
    chat.add_generation_prompt = false;
    return rendered_text(source, chat);
  };
  const std::string plain = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
  const std::string trimming = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}";
  CHECK(continued(plain, R"("content":"one ")") == "[q][one ");
  CHECK(continued(trimming, R"("content":"one ")") == "[q][one");
  const std::string parts =
      "{% for m in messages if m.content is not string %}"
      "{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}";
  CHECK(continued(parts, R"("content":[{"type":"text","text":"a"},{"type":"text","text":"b"}])") ==
        "(a)(b");
  const std::string thinks = "{{ messages[1].reasoning_content }}|{{ messages[1].content }}";
  CHECK(continued(thinks, R"("content":"c","reasoning":"r")", "reasoning") == "r");
  CHECK(
      continued(plain, R"("tool_calls":[])").starts_with("error: the last message has no content"));
  CHECK(continued(plain, R"("content":"x","note":"n")", "note")
            .starts_with("error: the template does not read note"));
  CHECK(continued("{{ messages[0].content }}", R"("content":"x")")
            .starts_with("error: the template leaves out"));
}

TEST_CASE("what a template refuses, fails at or needs too much of is an error of the line") {
  const auto error = [](const std::string& source) {
    return render_chat(format_of(source), ask(kHi), std::nullopt).error();
  };
  CHECK(error("{{ raise_exception('no') }}").code == "invalid_messages");
  CHECK(error("{{ raise_exception('no') }}").message ==
        "the chat template refuses the messages: no");
  const std::string failed = error("a\n{{ 1 + 'x' }}").message;
  CHECK(failed.starts_with("the chat template (test) fails at its line 2: "));
  const RequestError limit = error("{{ 'x' * 100000000 }}");
  CHECK(limit.code == "invalid_messages");
  CHECK(limit.message ==
        "the chat template (test) fails at its line 1: "
        "the template needs more than 67108864 bytes of text");
}

TEST_CASE("a template that fails is named by its file, or by the field of its file") {
  const TempDir dir;
  const auto error = [&] {
    return render_chat(read_chat_format(dir.path(), "", "2024-07-26"), ask(kHi), std::nullopt)
        .error()
        .message;
  };
  write_file(dir / "tokenizer_config.json", R"({"chat_template": "\n{{ 1 + 'x' }}"})");
  CHECK(error().starts_with(
      "the chat template (chat_template of tokenizer_config.json) fails at its line 2: "));
  write_file(dir / "tokenizer_config.json", R"({"chat_template": "\n{{ 1 + }}"})");
  CHECK(error().starts_with(
      "the chat template (chat_template of tokenizer_config.json) cannot be read: line 2: "));
  write_file(
      dir / "tokenizer_config.json",
      R"({"chat_template": {"default": "{% for i in range(10) %}{{ 'x' * 9999999 }}{% endfor %}"}})");
  CHECK(
      error().starts_with("the chat template (chat_template of tokenizer_config.json, 'default') "
                          "fails at its line 1: the template needs more than "));
  write_file(dir / "chat_template.jinja", "\n\n{{ 1 + 'x' }}");
  CHECK(error().starts_with("the chat template (chat_template.jinja) fails at its line 3: "));
}

TEST_CASE("the parts that people wrote are those of messages, tools and arguments alone") {
  Chat chat = ask(R"([{"role":"user","content":"<x>"}])");
  chat.template_arguments = R"({"style":"<y>"})";
  const Result<RenderedChat> rendered = render_chat(
      format_of("<x>{{ bos_token }}{{ messages[0].content }}|{{ style }}|", {{"bos_token", "<B>"}}),
      chat, std::nullopt);
  REQUIRE(rendered);
  CHECK(rendered->text == "<x><B><x>|<y>|");
  REQUIRE(rendered->written.size() == 2);
  CHECK(rendered->written[0].begin == 6);
  CHECK(rendered->written[0].end == 9);
  CHECK(rendered->written[1].begin == 10);
}
