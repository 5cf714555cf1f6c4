#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/json.h"
#include "tests/support/chat_support.h"
#include "text/chat/chat_date.h"
#include "text/chat/render_chat.h"

using namespace pagedinfer;

namespace {

constexpr std::string_view kDay = "2025-05-01";

std::string quoted(const std::string& text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

std::string config_with(const std::string& template_json) {
  return R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","chat_template":)" +
         template_json + "}";
}

std::string named(const std::string& name, const std::string& text) {
  return "{\"name\":" + quoted(name) + ",\"template\":" + quoted(text) + "}";
}

// What the directory's template makes of a conversation, or its error.
std::string rendered(const TempDir& dir, const std::string& tools = "") {
  const Result<RenderedChat> chat = render_chat(
      read_chat_format(dir.path(), "", kDay),
      {.messages = R"([{"role":"user","content":"Hi"}])", .tools = tools}, std::nullopt);
  return chat ? chat->text : std::string(chat.error().code.name());
}

}  // namespace

TEST_CASE("a directory's template is found wherever a model keeps it, in transformers' order") {
  const TempDir dir;
  CHECK(rendered(dir) == "no_chat_template");
  write_file(dir / "chat_template.json", "{\"chat_template\":\"one\"}");
  CHECK(rendered(dir) == "one");
  write_file(dir / "tokenizer_config.json", config_with("\"two{{ bos_token }}{{ eos_token }}\""));
  CHECK(rendered(dir) == "two<s></s>");
  CHECK(template_origin(read_chat_format(dir.path(), "", kDay)) == "tokenizer_config.json");
  write_file(dir / "chat_template.jinja", "three");
  CHECK(rendered(dir) == "three");
  CHECK(rendered(dir, "[]") == "three");
  std::filesystem::create_directory(dir / "additional_chat_templates");
  write_file(dir / "additional_chat_templates/tool_use.jinja", "four");
  CHECK(rendered(dir) == "three");
  CHECK(rendered(dir, "[]") == "four");
  write_file(dir / "additional_chat_templates/default.jinja", "five");
  CHECK(rendered(dir) == "five");
  std::filesystem::remove(dir / "additional_chat_templates/default.jinja");
  // Files replace all that the configuration has, even where none of them is the default.
  std::filesystem::remove(dir / "chat_template.jinja");
  CHECK(rendered(dir) == "no_chat_template");
  CHECK(rendered(dir, "[]") == "four");
}

TEST_CASE("a folder with the name of a template's file is not read") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "chat_template.jinja");
  write_file(dir / "tokenizer_config.json", config_with("\"one\""));
  CHECK(rendered(dir) == "one");
}

TEST_CASE("of named templates tools choose, and there must be a default") {
  const TempDir dir;
  const auto write = [&](const std::string& list) {
    write_file(dir / "tokenizer_config.json", config_with("[" + list + "]"));
  };
  write(named("default", "one") + "," + named("tool_use", "two") + "," + named("rag", "three"));
  CHECK(rendered(dir) == "one");
  CHECK(rendered(dir, "[{}]") == "two");
  write(named("default", "one"));
  CHECK(rendered(dir, "[{}]") == "one");
  write_file(dir / "tokenizer_config.json", config_with(R"({"default":"one","tool_use":"two"})"));
  CHECK(rendered(dir) == "one");
  CHECK(rendered(dir, "[{}]") == "two");
  write(named("rag", "three"));
  CHECK(rendered(dir) == "no_chat_template");
  const std::string problem = read_chat_format(dir.path(), "", kDay).problem;
  CHECK(problem.find("rag") != std::string::npos);
  CHECK(problem.find("--chat-template") != std::string::npos);
}

TEST_CASE("a template that cannot be read is a reason for each line, which names it") {
  const TempDir dir;
  write_file(dir / "chat_template.jinja", "a\n{% if %}");
  const ChatFormat format = read_chat_format(dir.path(), "", kDay);
  CHECK(
      format.problem.starts_with("the chat template (chat_template.jinja) cannot be read: line 2"));
  CHECK(format.problem.find(dir.path()) == std::string::npos);  // records hold it
  CHECK(rendered(dir) == "no_chat_template");
}

TEST_CASE("a flag's file goes before what the directory has") {
  const TempDir dir;
  write_file(dir / "chat_template.jinja", "one");
  write_file(dir / "own", "two");
  const ChatFormat own = read_chat_format(dir.path(), dir / "own", kDay);
  CHECK(template_origin(own) == dir / "own");
  CHECK(template_hash(own) != template_hash(read_chat_format(dir.path(), "", kDay)));
  const ChatFormat none = read_chat_format(dir.path(), "none", kDay);
  CHECK(none.problem.find("--chat-template none") != std::string::npos);
  CHECK_THROWS_WITH_AS(read_chat_format(dir.path(), dir / "missing", kDay),
                       doctest::Contains("--chat-template: "), Error);
  write_file(dir / "own", "\xFF");
  CHECK_THROWS_WITH_AS(read_chat_format(dir.path(), dir / "own", kDay), doctest::Contains("UTF-8"),
                       Error);
}

TEST_CASE("a malformed file is an error that names it") {
  for (const char* value : {"7", "{}", R"(["x"])", R"([{"name":"default"}])", R"({"default":7})"}) {
    const TempDir dir;
    CAPTURE(value);
    write_file(dir / "tokenizer_config.json", config_with(value));
    CHECK_THROWS_WITH_AS(read_chat_format(dir.path(), "", kDay),
                         doctest::Contains("tokenizer_config.json"), Error);
  }
}

TEST_CASE("a date is a day that there is, in either form") {
  const auto text = [](std::string_view given) {
    const auto date = parse_chat_date(given);
    return date ? text_of_date(*date) : "none";
  };
  CHECK(text("2024-07-26") == "2024-07-26");
  CHECK(text("26 Jul 2024") == "2024-07-26");
  CHECK(text("1 May 2025") == "2025-05-01");
  CHECK(text("2024-02-29") == "2024-02-29");
  for (const char* wrong : {"", "2023-02-29", "2024-13-01", "2024-00-01", "2024-07-32", "now",
                            "26 jul 2024", "26 Jul 24", "2024-7-26", "026 Jul 2024", "0000-01-01",
                            "2024-07-26 ", "-1 Jul 2024", "+1 Jul 2024"}) {
    CAPTURE(wrong);
    CHECK(text(wrong) == "none");
  }
}
