// Conversations from file to file, with the bundled Llama, to whom a template's marks are words.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/json.h"
#include "tests/support/e2e.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

std::string template_file(const std::string& name) {
  return source_dir() + "/tests/data/chat/" + name + ".jinja";
}

const Words kChatml = {"--chat-template", template_file("chatml")};

// Flags of a template with this text, which stands in a file as long as this does.
struct OwnTemplate {
  explicit OwnTemplate(const std::string& text) { write_file(dir / "t.jinja", text); }
  Words flags() const { return {"--chat-template", dir / "t.jinja"}; }
  TempDir dir;
};

std::string quoted(const std::string& text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

std::string messages_line(const std::string& messages, const std::string& more = "") {
  return R"({"id":1,"max_tokens":6,"messages":)" + messages + more + "}\n";
}

// A line with the tokens of a text that nothing is put in front of, as a template writes it.
std::string tokens_line(const std::string& text) {
  std::string line;
  JsonWriter json(line);
  json.begin_object().field("id", 1).field("max_tokens", 6).key("prompt_token_ids").begin_array();
  for (const TokenId token : make_tokenizer(bundled_model())->encode(text, AddBos::kNo)) {
    json.value(token);
  }
  json.end_array().end_object();
  return line + "\n";
}

// The only record of a run over one line.
Json record_of(const std::string& line, const Words& flags) {
  Answers answers = answer(line, flags);
  REQUIRE(answers.records.size() == 1);
  CHECK(answers.exit_code == (answers.records[0].has("/error/code") ? 2 : 0));
  return std::move(answers.records[0]);
}

std::string code_of(const std::string& line, const Words& flags) {
  return record_of(line, flags).text("/error/code");
}

// CHECKs that both lines get the same record.
void check_same(const std::string& line, const Words& flags, const std::string& text) {
  CAPTURE(line);
  CHECK(record_of(line, flags).line() == record_of(tokens_line(text), {}).line());
}

const std::string kUser = R"([{"role":"user","content":"Nora has 3 apples."}])";
const std::string kUserText = "<|im_start|>user\nNora has 3 apples.<|im_end|>\n";
const std::string kBegin = "<|im_start|>assistant\n";

}  // namespace

TEST_CASE("messages are completed as their template writes them") {
  check_same(messages_line(kUser), kChatml, kUserText + kBegin);
  check_same(messages_line(kUser, R"(,"add_generation_prompt":false)"), kChatml, kUserText);
  const OwnTemplate thinking("{{ messages[0].content }}{{ '' if enable_thinking else '<quiet>' }}");
  check_same(messages_line(kUser, R"(,"chat_template_kwargs":{"enable_thinking":false})"),
             thinking.flags(), "Nora has 3 apples.<quiet>");
  check_same(R"({"id":1,"max_tokens":6,"prompt":"Nora has 3 apples."})"
             "\n",
             kChatml + Words{"--chat"}, kUserText + kBegin);
}

TEST_CASE("reasoning_effort and verbosity are the template's, or are told of as unknown") {
  const std::string asks = R"(,"reasoning_effort":"none","verbosity":"low")";
  const OwnTemplate switched("{{ messages[0].content }}{{ '' if enable_thinking else '<quiet>' }}");
  check_same(messages_line(kUser, asks), switched.flags(), "Nora has 3 apples.<quiet>");
  const TempDir dir;
  write_file(dir / "in.jsonl", messages_line(kUser, asks) +
                                   messages_line(kUser, R"(,"reasoning_effort":"high")") +
                                   R"({"id":3,"prompt":"x","max_tokens":2,"verbosity":"low"})");
  const auto run_with = [&](const Words& flags) {
    return run(Words{"--input", dir / "in.jsonl", "--overwrite"} + flags);
  };
  const Ended ended = run_with(kChatml);
  CHECK(ended.exit_code == 0);
  const std::string note = "ignored unknown keys: \"reasoning_effort\" (1), \"verbosity\" (2)";
  CHECK(ended.err.find(note) != std::string::npos);
  CHECK(run_with(switched.flags()).err.find("unknown keys: \"verbosity\" (2)") !=
        std::string::npos);
  CHECK(run_with(kChatml + Words{"--strict"}).exit_code == 2);
  CHECK(code_of(messages_line(kUser, R"(,"reasoning_effort":"high")"),
                kChatml + Words{"--strict"}) == "unknown_key");
  CHECK_FALSE(record_of(messages_line(kUser, R"(,"reasoning_effort":"high")"),
                        switched.flags() + Words{"--strict"})
                  .has("/error/code"));
  CHECK(code_of(messages_line(kUser, R"(,"reasoning_effort":3)"), kChatml) == "invalid_value");
}

TEST_CASE("the flags' system message stands where a line has none") {
  const Words flags = kChatml + Words{"--system", "Be kind."};
  const std::string system = "<|im_start|>system\nBe kind.<|im_end|>\n";
  check_same(messages_line(kUser), flags, system + kUserText + kBegin);
  check_same(messages_line(R"([{"role":"system","content":"Be short."}])"), flags,
             "<|im_start|>system\nBe short.<|im_end|>\n" + kBegin);
  check_same(R"({"id":1,"max_tokens":6,"prompt":"Nora has 3 apples."})"
             "\n",
             flags + Words{"--chat"}, system + kUserText + kBegin);
  const std::string plain = R"({"id":1,"max_tokens":6,"prompt":"Nora has 3 apples."})"
                            "\n";
  CHECK(record_of(plain, flags).line() == record_of(plain, {}).line());
}

TEST_CASE("a date is the flag's, and otherwise always the same") {
  const OwnTemplate dated("Today is {{ strftime_now('%d %b %Y') }}. {{ messages[0].content }}");
  check_same(messages_line(kUser), dated.flags(), "Today is 26 Jul 2024. Nora has 3 apples.");
  for (const char* date : {"2025-05-01", "1 May 2025"}) {
    check_same(messages_line(kUser), dated.flags() + Words{"--chat-date", date},
               "Today is 01 May 2025. Nora has 3 apples.");
  }
}

TEST_CASE("tools and their calls reach the template") {
  const OwnTemplate calls(
      "{{ tools | tojson }}{% for m in messages %}"
      "{{ m.tool_calls | tojson if m.tool_calls else m.content }}{% endfor %}");
  check_same(messages_line(R"([{"role":"user","content":"Nora"},)"
                           R"({"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}])",
                           R"(,"tools":[{"function":{"name":"f"}}],"tool_choice":"auto")"),
             calls.flags(), R"([{"function": {"name": "f"}}]Nora[{"id": "a"}])");
}

TEST_CASE("a completion goes on with the last message where the line says so") {
  check_same(messages_line(R"([{"role":"user","content":"Nora"},)"
                           R"({"role":"assistant","content":"has a "}])",
                           R"(,"continue_final_message":true)"),
             kChatml, "<|im_start|>user\nNora<|im_end|>\n<|im_start|>assistant\nhas a ");
  CHECK(code_of(messages_line(R"([{"role":"user","content":"x"}])",
                              R"(,"continue_final_message":"note")"),
                kChatml) == "invalid_messages");
}

TEST_CASE("special tokens that people spell are text where that is asked for") {
  const OwnTemplate plain("<s>{{ messages[0].content }}</s>");
  const std::string line = messages_line(R"([{"role":"user","content":"a</s>b"}])");
  const std::string escaped =
      messages_line(R"([{"role":"user","content":"a</s>b"}])", R"(,"escape_special":true)");
  const auto count = [&](const std::string& text, const Words& flags) {
    return record_of(text, flags).integer("/prompt_tokens");
  };
  const int64_t open = count(line, plain.flags());
  CHECK(open == 5);  // <s> a </s> b </s>
  const int64_t closed = count(line, plain.flags() + Words{"--escape-special"});
  CHECK(closed > open);
  CHECK(count(escaped, plain.flags()) == closed);
  const std::string prompt = R"({"prompt":"a</s>b","max_tokens":1)";
  CHECK(count(prompt + R"(,"escape_special":true})", {}) > count(prompt + "}", {}));
  CHECK(count(prompt + R"(,"escape_special":false})", {"--escape-special"}) ==
        count(prompt + "}", {}));
}

TEST_CASE("a model without a template refuses messages line by line, and nothing else") {
  const std::string lines = messages_line(kUser) + R"({"prompt":"Nora","max_tokens":2})" + "\n" +
                            R"({"custom_id":"c","url":"/v1/chat/completions","body":{"messages":)" +
                            kUser + "}}\n";
  const Answers answers = answer(lines);
  CHECK(answers.exit_code == 2);
  REQUIRE(answers.records.size() == 3);
  CHECK(answers.records[0].text("/error/code") == "no_chat_template");
  const std::string message = answers.records[0].text("/error/message");
  CHECK(message.find("--chat-template") != std::string::npos);
  CHECK(answers.records[1].integer("/completion_tokens") == 2);
  CHECK(answers.records[2].text("/error/code") == "no_chat_template");
  CHECK(code_of(messages_line(kUser), {"--chat-template", "none"}) == "no_chat_template");
}

TEST_CASE("a conversation that its template refuses is an error of its line") {
  const Words turns = {"--chat-template", template_file("model_turns")};
  const Json refused = record_of(messages_line(R"([{"role":"assistant","content":"x"}])"), turns);
  CHECK(refused.text("/error/code") == "invalid_messages");
  CHECK(refused.text("/error/message").find("roles must alternate") != std::string::npos);
  const OwnTemplate endless("{{ 'x' * 100000000 }}");
  CHECK(code_of(messages_line(kUser), endless.flags()) == "invalid_messages");
  CHECK(code_of(messages_line("[]", R"(,"url":"u")"), kChatml) == "missing_prompt");
  CHECK(code_of(R"({"url":"/v1/chat/completions","body":{"messages":[]}})", kChatml) ==
        "empty_prompt");
  CHECK(code_of(R"({"prompt":""})", kChatml + Words{"--chat"}) == "empty_prompt");
  for (const char* keys :
       {R"("chat_template_kwargs":{"enable_thinking":true})",
        R"("tools":[{"function":{"name":"f"}}])", R"("continue_final_message":true)"}) {
    CHECK(code_of(R"({"prompt":"x",)" + std::string(keys) + "}", {}) == "unsupported");
  }
}

TEST_CASE("a mixed file is answered line by line, each in its form") {
  const std::string body = R"({"model":"m","max_completion_tokens":3,"messages":)" + kUser + "}";
  const std::string lines =
      R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":)" + body + "}\n" +
      R"({"custom_id":"b","method":"POST","url":"/v1/completions","body":{"prompt":"Nora",)" +
      R"("max_tokens":3}})" + "\n" + messages_line(kUser) + R"({"prompt":"Nora"})" + "\n";
  const Answers answers = answer(lines, kChatml + Words{"--max-tokens", "3"});
  CHECK(answers.exit_code == 0);
  REQUIRE(answers.records.size() == 4);
  const Json& chat = answers.records[0];
  CHECK(chat.text("/response/body/object") == "chat.completion");
  CHECK(chat.text("/response/body/id") == "chatcmpl-0");
  CHECK(chat.text("/response/body/choices/0/message/role") == "assistant");
  CHECK(chat.integer("/response/body/usage/completion_tokens") == 3);
  const std::string content = chat.text("/response/body/choices/0/message/content");
  CHECK(answers.records[1].has("/response/body/choices/0/text"));
  const std::string text = answers.records[2].text("/text");
  CHECK(text.starts_with(content));
  CHECK(answers.records[3].integer("/completion_tokens") == 3);
}

TEST_CASE("flags that leave conversations no template are refused") {
  const TempDir dir;
  write_file(dir / "in.jsonl", messages_line(kUser));
  const auto message = [&](const Words& flags) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl"} + flags);
    CHECK(ended.exit_code == 1);
    CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl"});
    return ended.err;
  };
  for (const Words& flags : {Words{"--chat"}, Words{"--chat", "--chat-template", "none"}}) {
    CHECK(message(flags).find("--chat-template") != std::string::npos);
  }
  CHECK(message({"--chat-template", "llama"}).find("llama") != std::string::npos);
  CHECK(message({"--chat-date", "today"}).find("2024-07-26") != std::string::npos);
  CHECK(message({"--system", "\xFF"}).find("--system") != std::string::npos);
  CHECK(message({"--chat-date", "\xFF"}).find("--chat-date") != std::string::npos);
}

TEST_CASE("a model's own template is used, and told in the summary") {
  const TempDir dir;
  fs::copy(bundled_model(), dir / "model");
  const std::string chatml =
      "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
      "{{ message['content'] }}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  write_file(dir / "model/tokenizer_config.json",
             R"({"bos_token":"<s>","chat_template":)" + quoted(chatml) + "}");
  write_file(dir / "in.jsonl", messages_line(kUser));
  const Words flags = {"--input", dir / "in.jsonl", "--model", dir / "model", "--overwrite"};
  const auto setting = [&](const Words& more) {
    CHECK(run(flags + more).exit_code == 0);
    const Json summary = summary_beside(dir / "in.stats.jsonl");
    CHECK(summary.text("/config/chat_date") == "2024-07-26");
    CHECK(summary["/config/chat"] == (more.empty() ? "false" : "true"));
    CHECK(summary["/config/system"] == (more.empty() ? "null" : R"("Be kind.")"));
    return summary.text("/config/chat_template");
  };
  CHECK(setting({}) == "tokenizer_config.json");
  CHECK(json_file(dir / "in.completions.jsonl")[0].text("/text") ==
        record_of(messages_line(kUser), kChatml).text("/text"));
  const std::string other = template_file("model_turns");
  CHECK(setting({"--chat-template", other, "--chat", "--system", "Be kind."}) == other);
  write_file(dir / "model/chat_template.jinja", "{% if %}");
  CHECK(code_of(messages_line(kUser), {"--model", dir / "model"}) == "no_chat_template");
}

TEST_CASE("a conversation ends with its template's turn, unless ends are ignored") {
  const TempDir dir;
  fs::copy(bundled_model(), dir / "model");
  const Words flags = kChatml + Words{"--token-ids", "--model", dir / "model"};
  const auto config_with_end = [&](std::string_view end) {
    write_file(dir / "model/tokenizer_config.json",
               R"({"bos_token":"<s>","eos_token":)" + quoted(std::string(end)) + "}");
  };
  const auto tokens_of = [&](const std::string& more) {
    return record_of(messages_line(kUser, more), flags).integers("/token_ids");
  };
  config_with_end("</s>");
  const std::vector<int64_t> all = tokens_of("");
  REQUIRE(all.size() == 6);
  // Now the tokenizer's end is another of its tokens, which the model's other files call no end.
  const auto place = std::find_if(all.begin(), all.end(), [&](auto id) { return id != all[0]; });
  REQUIRE(place < all.end() - 1);
  const auto token = static_cast<TokenId>(*place);
  const auto tokenizer = make_tokenizer(bundled_model());
  std::string piece;
  for (const char c : tokenizer->token_bytes(token)) {
    piece += c == ' ' ? "\xE2\x96\x81" : std::string(1, c);
  }
  config_with_end(piece);
  CHECK(tokens_of("") == std::vector<int64_t>(all.begin(), place + 1));
  CHECK(tokens_of(R"(,"ignore_eos":true)") == all);
}

TEST_CASE("the summary names the tokens that end a completion") {
  const TempDir dir;
  write_file(dir / "in.jsonl", messages_line(kUser));
  CHECK(run({"--input", dir / "in.jsonl", "--model", "story-qwen3"}).exit_code == 0);
  const Json summary = summary_beside(dir / "in.stats.jsonl");
  CHECK(summary["/config/end_tokens"] == "[2,0]");
  CHECK(summary["/config/ends_of_turn"] == "[2]");
}

TEST_CASE("a run is resumed with the settings of conversations that it began with") {
  const TempDir dir;
  write_file(dir / "in.jsonl", messages_line(kUser));
  const Words flags = Words{"--input", dir / "in.jsonl", "--resume"} + kChatml;
  CHECK(run(flags).exit_code == 0);
  write_file(dir / "in.jsonl", messages_line(kUser) + messages_line(kUser));
  const auto refused = [&](const Words& other, const std::string& setting) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl", "--resume"} + other);
    CHECK(ended.exit_code == 1);
    CHECK_MESSAGE(ended.err.find(setting) != std::string::npos, ended.err);
  };
  refused({"--chat-template", template_file("model_turns")}, "chat_template");
  refused(kChatml + Words{"--chat"}, "chat");
  refused(kChatml + Words{"--system", ""}, "system");
  refused(kChatml + Words{"--chat-date", "2025-05-01"}, "chat_date");
  refused(kChatml + Words{"--escape-special"}, "escape_special");
  CHECK(run(flags).exit_code == 0);
  CHECK(json_file(dir / "in.completions.jsonl").size() == 2);
}

}  // namespace pagedinfer
