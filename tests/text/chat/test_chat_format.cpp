#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "tests/support/support.h"
#include "text/chat/chat_format.h"

using namespace pagedinfer;

namespace {

// The template of models that the project trains.
const std::string kChatml =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::string config_with(const std::string& template_json) {
  return R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","chat_template":)" +
         template_json + "}";
}

std::string quoted(const std::string& text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

std::string name_in(const ChatFormat& format) {
  return format.known == nullptr ? "" : std::string(format.known->name);
}

// The format of a directory with one more file.
ChatFormat read(const TempDir& dir, const char* file, const std::string& text) {
  write_file(dir / file, text);
  return read_chat_format(dir.path(), "", "1 May 2025");
}

}  // namespace

TEST_CASE("a template is known by its text, whatever ends its lines") {
  const auto name_of = [](const std::string& text) -> std::string {
    const ChatTemplate* known = recognize_chat_template(text);
    return known == nullptr ? "" : std::string(known->name);
  };
  CHECK(name_of(kChatml) == "chatml");
  CHECK(name_of(kChatml + "\n") == "chatml");
  CHECK(name_of(kChatml + "\r\n") == "chatml");
  for (const char* newline : {"\r\n", "\r"}) {
    std::string text;
    for (const char c : kChatml) text += c == '\n' ? std::string(newline) : std::string(1, c);
    CHECK(name_of(text) == "chatml");
  }
  CHECK(name_of("") == "");
  CHECK(name_of("\n") == "");
  CHECK(name_of(kChatml + "\n\n") == "");
  CHECK(name_of(" " + kChatml) == "");
  for (size_t i = 0; i < kChatml.size(); ++i) {
    std::string text = kChatml;
    text[i] = text[i] == 'x' ? 'y' : 'x';
    CHECK(name_of(text) == "");
    CHECK(name_of(kChatml.substr(0, i)) == "");
  }
}

TEST_CASE("the shared reference's templates are known") {
  const std::pair<const char*, const char*> cases[] = {
      {"Qwen-Qwen2.5-7B-Instruct", "qwen2.5"},
      {"Qwen-Qwen3-0.6B", "qwen3"},
      {"google-gemma-2-2b-it", "gemma2"},
      {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-nemo"}};
  for (const auto& [file, name] : cases) {
    const std::string path = shared_data("chat_templates/" + std::string(file) + ".jinja");
    if (!std::filesystem::exists(path)) {
      MESSAGE("SKIPPED: no " << path);
      continue;
    }
    CAPTURE(file);
    const ChatTemplate* known = recognize_chat_template(read_file(path));
    REQUIRE(known != nullptr);
    CHECK(known->name == name);
  }
}

TEST_CASE("a directory's template and tokens are found wherever a model keeps them") {
  {
    const TempDir dir;
    const ChatFormat nothing = read_chat_format(dir.path(), "", "1 May 2025");
    CHECK(name_in(nothing) == "");
    CHECK(nothing.words.bos == "");
    CHECK(nothing.words.date == "1 May 2025");
    CHECK(name_in(read(dir, "chat_template.json", "{\"chat_template\":" + quoted(kChatml) + "}")) ==
          "chatml");
    CHECK(read(dir, "special_tokens_map.json", R"({"bos_token":"<b>"})").words.bos == "<b>");
    // A file that comes before another one hides it.
    const ChatFormat other = read(dir, "tokenizer_config.json", config_with("\"other\""));
    CHECK(name_in(other) == "");
    CHECK(other.problem.find("tokenizer_config.json") != std::string::npos);
    CHECK(other.words.bos == "<b>");
    CHECK(other.words.eos == "</s>");
    // As in the reference, special_tokens_map.json is ignored if tokenizer_config.json lists added
    // tokens.
    CHECK(read(dir, "tokenizer_config.json", R"({"eos_token":"</s>","added_tokens_decoder":{}})")
              .words.bos == "");
    CHECK(other.words.eos == "</s>");
    CHECK(name_in(read(dir, "chat_template.jinja", kChatml)) == "chatml");
  }
  const TempDir dir;
  const std::string named =
      R"([{"name":"tool_use","template":"other"},{"name":"default","template":)";
  CHECK(name_in(read(dir, "tokenizer_config.json", config_with(named + quoted(kChatml) + "}]"))) ==
        "chatml");
  CHECK(name_in(read(dir, "tokenizer_config.json", config_with("null"))) == "");
}

TEST_CASE("without a known template there is a reason that names the flag and the templates") {
  const TempDir dir;
  const std::string none = read_chat_format(dir.path(), "", "").problem;
  const std::string unknown = read(dir, "chat_template.jinja", kChatml + " ").problem;
  for (const std::string& problem : {none, unknown}) {
    CAPTURE(problem);
    CHECK(problem.find("--chat-template") != std::string::npos);
    CHECK(problem.find("chatml, gemma2") != std::string::npos);
    CHECK(problem.find(dir.path()) == std::string::npos);  // records hold it
  }
}

TEST_CASE("a name goes before what the directory has") {
  const TempDir dir;
  write_file(dir / "chat_template.jinja", kChatml);
  CHECK(name_in(read_chat_format(dir.path(), "", "")) == "chatml");
  CHECK(name_in(read_chat_format(dir.path(), "llama3", "")) == "llama3");
  const ChatFormat none = read_chat_format(dir.path(), "none", "");
  CHECK(none.known == nullptr);
  CHECK(none.problem.find("--chat-template none") != std::string::npos);
}

TEST_CASE("a malformed file is an error that names it") {
  for (const char* value : {"7", "[]", "{}", R"([{"name":"rag","template":"x"}])", R"(["x"])"}) {
    const TempDir dir;
    CAPTURE(value);
    CHECK_THROWS_WITH_AS(read(dir, "tokenizer_config.json", config_with(value)),
                         doctest::Contains("tokenizer_config.json"), Error);
  }
  const TempDir dir;
  CHECK_THROWS_AS(read(dir, "tokenizer_config.json", R"({"bos_token":7})"), Error);
}
