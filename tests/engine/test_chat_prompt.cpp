#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "engine/chat_prompt.h"
#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

// A model directory with another tokenizer.
std::string with_tokenizer(const TempDir& dir, const std::string& name, const std::string& config) {
  const std::string path = shared_data("tokenizers/" + name + "/tokenizer.json");
  if (!std::filesystem::exists(path)) {
    MESSAGE("SKIPPED: no " << path);
    return "";
  }
  std::filesystem::copy(path, dir / "tokenizer.json");
  write_file(dir / "tokenizer_config.json", config);
  return dir.path();
}

RequestDraft conversation(bool spelt) {
  RequestDraft draft;
  draft.has_messages = true;
  draft.chat.messages = {{.role = "user", .content = spelt ? "<|begin_of_text|>Hi" : "Hi"},
                         {.role = "assistant", .content = "Hello"},
                         {.role = "user", .content = "Tell me a joke."}};
  return draft;
}

}  // namespace

TEST_CASE("Llama 3's prompts have one beginning of sequence, and tokens for its marks") {
  const TempDir dir;
  const std::string model = with_tokenizer(
      dir, "llama3", R"({"bos_token":"<|begin_of_text|>","eos_token":"<|eot_id|>"})");
  if (model.empty()) return;
  const auto tokenizer = make_tokenizer(model);
  ChatSettings settings = {.format = read_chat_format(model, "llama3", "26 Jul 2024")};
  settings.end_of_turn = find_end_of_turn(settings.format, tokenizer.get());
  CHECK(settings.end_of_turn == 128009);
  for (const bool spelt : {false, true}) {
    const ChatPrompt prompt = make_chat_prompt(conversation(spelt), settings);
    REQUIRE(prompt.error.code == "");
    const auto tokens = tokenizer->encode(prompt.text, prompt.add_bos);
    CHECK(tokens[0] == 128000);
    CHECK(std::count(tokens.begin(), tokens.end(), 128000) == (spelt ? 2 : 1));
    CHECK(std::count(tokens.begin(), tokens.end(), 128006) == 5);  // headers begin
    CHECK(std::count(tokens.begin(), tokens.end(), 128007) == 5);  // and end
    CHECK(std::count(tokens.begin(), tokens.end(), 128009) == 4);  // turns end
  }
  // Where no file tells the token's text, the tokenizer puts it in front as for any prompt.
  write_file(dir / "tokenizer_config.json", "{}");
  settings.format = read_chat_format(model, "llama3", "26 Jul 2024");
  const ChatPrompt prompt = make_chat_prompt(conversation(false), settings);
  const auto tokens = tokenizer->encode(prompt.text, prompt.add_bos);
  CHECK(std::count(tokens.begin(), tokens.end(), 128000) == 1);
  CHECK(tokens[0] == 128000);
}

TEST_CASE("Qwen 3's prompts have tokens for its marks, and no beginning of sequence") {
  const TempDir dir;
  const std::string model =
      with_tokenizer(dir, "qwen3", R"({"bos_token":null,"eos_token":"<|im_end|>"})");
  if (model.empty()) return;
  const auto tokenizer = make_tokenizer(model);
  ChatSettings settings = {.format = read_chat_format(model, "qwen3", "")};
  CHECK(find_end_of_turn(settings.format, tokenizer.get()) == 151645);
  RequestDraft draft = conversation(false);
  draft.chat.enable_thinking = false;
  const ChatPrompt prompt = make_chat_prompt(draft, settings);
  const auto tokens = tokenizer->encode(prompt.text, prompt.add_bos);
  CHECK(tokens[0] == 151644);
  CHECK(std::count(tokens.begin(), tokens.end(), 151644) == 4);
  CHECK(std::count(tokens.begin(), tokens.end(), 151645) == 3);
  CHECK(std::count(tokens.begin(), tokens.end(), 151667) == 1);  // <think>
  CHECK(std::count(tokens.begin(), tokens.end(), 151668) == 1);  // </think>
}

TEST_CASE("the end of a turn is no token where the vocabulary has none") {
  const auto tokenizer = make_tokenizer(bundled_model());
  const ChatFormat chatml = read_chat_format(bundled_model(), "chatml", "");
  CHECK_FALSE(find_end_of_turn(chatml, tokenizer.get()));
  CHECK_FALSE(find_end_of_turn(chatml, nullptr));
  CHECK_FALSE(find_end_of_turn(read_chat_format(bundled_model(), "none", ""), tokenizer.get()));
  const ChatFormat mistral = read_chat_format(bundled_model(), "mistral-nemo", "");
  CHECK(find_end_of_turn(mistral, tokenizer.get()) == 2);
}

TEST_CASE("the beginning of sequence is the template's, else the tokenizer's, never both") {
  const auto prompt = [](const char* name, const std::string& bos) {
    const ChatFormat format = {.known = find_chat_template(name), .words = {.bos = bos}};
    return make_chat_prompt(conversation(false), {.format = format});
  };
  for (const ChatTemplate& known : chat_templates()) {
    const std::string name(known.name);
    CAPTURE(name);
    const ChatPrompt told = prompt(name.c_str(), "<B>");
    const ChatPrompt untold = prompt(name.c_str(), "");
    CHECK(told.error.code == "");
    CHECK(told.text.starts_with("<B>") == known.adds_bos);
    CHECK(told.text == (known.adds_bos ? "<B>" : "") + untold.text);
    CHECK(told.add_bos == AddBos::kNo);
    CHECK(untold.add_bos == (known.adds_bos ? AddBos::kYes : AddBos::kNo));
  }
}
