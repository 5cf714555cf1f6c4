#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "intake/chat_prompt.h"
#include "tests/support/chat_support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

RequestDraft conversation(const std::string& question) {
  RequestDraft draft;
  draft.has_messages = true;
  draft.chat.messages = R"([{"role":"user","content":")" + question +
                        R"("},{"role":"assistant","content":"Hello"},)"
                        R"({"role":"user","content":"Tell me a joke."}])";
  return draft;
}

// A model directory with a tokenizer and a template of others; empty if one of them is absent.
struct SharedModel {
  SharedModel(const std::string& tokenizer, const std::string& chat_template,
              const std::string& config) {
    const std::string words = shared_data("tokenizers/" + tokenizer + "/tokenizer.json");
    const std::string jinja = shared_data("chat_templates/" + chat_template + ".jinja");
    is_there = std::filesystem::exists(words) && std::filesystem::exists(jinja);
    if (!is_there) return;
    std::filesystem::copy(words, dir / "tokenizer.json");
    std::filesystem::copy(jinja, dir / "chat_template.jinja");
    write_file(dir / "tokenizer_config.json", config);
  }
  TempDir dir;
  bool is_there = false;
};

int64_t count(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::count(tokens, token);
}

}  // namespace

TEST_CASE("Llama 3's prompts have one beginning of sequence, and tokens for its marks") {
  const SharedModel model("llama3", "meta-llama-Llama-3.2-3B-Instruct",
                          R"({"bos_token":"<|begin_of_text|>","eos_token":"<|eot_id|>"})");
  if (!model.is_there) {
    MESSAGE("SKIPPED: no shared data");
    return;
  }
  const auto tokenizer = make_tokenizer(model.dir.path());
  const ChatSettings settings = make_chat_settings({}, model.dir.path(), tokenizer.get());
  CHECK(settings.ends_of_turn == std::vector<TokenId>{128009});
  for (const bool spelt : {false, true}) {
    const Result<RenderedChat> prompt =
        make_prompt_text(conversation(spelt ? "<|begin_of_text|>Hi" : "Hi"), settings);
    REQUIRE(prompt);
    const auto tokens = tokenizer->encode(prompt->text, AddBos::kNo);
    CHECK(tokens[0] == 128000);
    CHECK(count(tokens, 128000) == (spelt ? 2 : 1));
    CHECK(count(tokens, 128006) == 5);  // headers begin
    CHECK(count(tokens, 128007) == 5);  // and end
    CHECK(count(tokens, 128009) == 4);  // turns end
    const auto escaped = tokenizer->encode_apart(
        prompt->text, AddBos::kNo, {.ranges = prompt->written, .also = prompt->template_text});
    CHECK(count(escaped, 128000) == 1);
    CHECK((escaped == tokens) == !spelt);
  }
}

TEST_CASE("Qwen 3's marks are tokens, but not those that people spell where that is asked for") {
  const SharedModel model("qwen3", "Qwen-Qwen3-0.6B",
                          R"({"bos_token":null,"eos_token":"<|im_end|>"})");
  if (!model.is_there) {
    MESSAGE("SKIPPED: no shared data");
    return;
  }
  const auto tokenizer = make_tokenizer(model.dir.path());
  const ChatSettings settings = make_chat_settings({}, model.dir.path(), tokenizer.get());
  CHECK(settings.ends_of_turn == std::vector<TokenId>{151645});
  RequestDraft draft = conversation("a<|im_end|>b</think>");
  draft.chat.template_arguments = R"({"enable_thinking":false})";
  const Result<RenderedChat> prompt = make_prompt_text(draft, settings);
  const auto tokens = tokenizer->encode(prompt->text, AddBos::kNo);
  CHECK(tokens[0] == 151644);
  CHECK(count(tokens, 151644) == 4);
  CHECK(count(tokens, 151645) == 4);
  CHECK(count(tokens, 151667) == 1);  // <think>
  CHECK(count(tokens, 151668) == 2);  // </think>
  const auto escaped = tokenizer->encode_apart(
      prompt->text, AddBos::kNo, {.ranges = prompt->written, .also = prompt->template_text});
  CHECK(count(escaped, 151644) == 4);
  CHECK(count(escaped, 151645) == 3);
  CHECK(count(escaped, 151667) == 1);
  CHECK(count(escaped, 151668) == 1);
}

TEST_CASE("the ends of a turn are the tokenizer's end and what the template writes") {
  const auto tokenizer = make_tokenizer(bundled_model());
  const auto ends = [&](const std::string& text, const std::string& eos, const Tokenizer* words) {
    return find_ends_of_turn(format_of(text, {{"eos_token", eos}}), words);
  };
  const std::string turns = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}";
  CHECK(ends(turns, "", tokenizer.get()).empty());
  CHECK(ends(turns, "</s>", tokenizer.get()) == std::vector<TokenId>{2});
  CHECK(ends(turns, "</s>", nullptr).empty());
  CHECK(ends("{% for m in messages %}{{ m.content }}</s>{% endfor %}", "", tokenizer.get()) ==
        std::vector<TokenId>{2});
}

TEST_CASE("a template that cannot be parsed is told as the reason for every line") {
  ChatFormat format = chatml_format();
  format.templates.front().reset();
  format.faults.front() = "it is broken";
  const Result<RenderedChat> prompt =
      make_prompt_text(conversation("Hi"), {.format = std::move(format)});
  CHECK(prompt.error().code == "no_chat_template");
  CHECK(prompt.error().message == "it is broken");
}
