// Calls of functions and thoughts, with random models that have the marks for them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/e2e.h"
#include "tests/support/grammar_support.h"

namespace pagedinfer {
namespace {

// A directory without weights, whose tokenizer spells the tokens 1003 and 1004 so.
class RandomModel {
 public:
  RandomModel(const std::string& first, const std::string& second,
              const std::string& chat_template) {
    write_file(dir_ / "config.json", R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "intermediate_size": 40, "vocab_size": 1005, "max_position_embeddings": 2048,
      "eos_token_id": 1002, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
      "tie_word_embeddings": true})");
    const std::string folder = source_dir() + "/tests/data/tokenizers/qwen3/";
    std::string tokens = read_file(folder + "tokenizer.json");
    replace(tokens, R"("<think>")", fmt::format("\"{}\"", first));
    replace(tokens, R"("</think>")", fmt::format("\"{}\"", second));
    write_file(dir_ / "tokenizer.json", tokens);
    write_file(dir_ / "tokenizer_config.json", read_file(folder + "tokenizer_config.json"));
    write_file(dir_ / "chat_template.jinja", chat_template);
  }

  Words flags() const { return {"--model", dir_.path(), "--weights", "dummy"}; }

 private:
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    const size_t place = text.find(from);
    REQUIRE(place != text.npos);
    text.replace(place, from.size(), to);
  }

  TempDir dir_;
};

const std::string kPlain = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
const std::string kThinking =
    kPlain +
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}";

const std::string kTools =
    R"([{"type":"function","function":{"name":"move","parameters":{"type":"object","properties":)"
    R"({"x":{"type":"integer","minimum":0,"maximum":99},"to":{"enum":["up","down"]}},)"
    R"("required":["x","to"]}}},{"type":"function","function":{"name":"stop"}}])";
const std::string kMove = R"re(\{"x":[0-9]{1,2},"to":"(up|down)"\})re";

std::string plain_line(const std::string& settings, int seed = 0) {
  return fmt::format(
             R"({{"messages":[{{"role":"user","content":"Go {}."}}],"max_tokens":80,"seed":{},{}}})",
             seed, seed, settings) +
         "\n";
}

std::string openai_line(const std::string& settings, int seed = 0) {
  return fmt::format(
             R"({{"custom_id":"c{}","method":"POST","url":"/v1/chat/completions","body":)"
             R"({{"messages":[{{"role":"user","content":"Go."}}],"max_tokens":80,"seed":{},{}}}}})",
             seed, seed, settings) +
         "\n";
}

std::string tools_with(const std::string& choice) {
  return fmt::format(R"("temperature":1,"tools":{},"tool_choice":{})", kTools, choice);
}

const std::string kNamed = R"({"type":"function","function":{"name":"move"}})";

bool matches(const std::string& text, const std::string& regex) {
  return std::regex_match(text, std::regex(regex));
}

}  // namespace

TEST_CASE("a forced call is answered as a call of a function that the line offers") {
  if (is_skipped_without_grammar()) return;
  const RandomModel model("<tool_call>", "</tool_call>", kPlain);
  std::string lines;
  constexpr int kNumLines = 12;
  for (int i = 0; i < kNumLines; ++i) {
    lines += plain_line(tools_with("\"required\""), i) + openai_line(tools_with(kNamed), i);
  }
  const Answers found = answer(lines, model.flags());
  REQUIRE(found.records.size() == 2 * kNumLines);
  std::set<std::string> names, ids;
  for (size_t i = 0; i < found.records.size(); i += 2) {
    const Json& plain = found.records[i];
    CAPTURE(plain.line());
    const std::string name = plain.text("/tool_calls/0/function/name");
    const std::string arguments = plain.text("/tool_calls/0/function/arguments");
    CHECK(matches(arguments, name == "move" ? kMove : R"(\{\})"));
    CHECK(plain.text("/text") == fmt::format(R"({{"name":"{}","arguments":{}}})", name, arguments));
    CHECK(plain.text("/finish_reason") == "tool_calls");
    CHECK_FALSE(plain.has("/tool_calls/1"));
    names.insert(name);
    ids.insert(plain.text("/tool_calls/0/id"));

    const Json& openai = found.records[i + 1];
    CAPTURE(openai.line());
    const std::string choice = "/response/body/choices/0";
    const std::string call = choice + "/message/tool_calls/0";
    CHECK(openai.text(call + "/type") == "function");
    CHECK(openai.text(call + "/function/name") == "move");
    CHECK(matches(openai.text(call + "/function/arguments"), kMove));
    CHECK(openai[choice + "/message/content"] == "null");
    CHECK(openai.text(choice + "/finish_reason") == "tool_calls");
    ids.insert(openai.text(call + "/id"));
  }
  CHECK(names == std::set<std::string>{"move", "stop"});
  CHECK(ids.size() == 2 * kNumLines);
  CHECK(answer(lines, model.flags() + Words{"--max-batch-size", "1"}).out == found.out);
  CHECK(matches(*ids.begin(), "call_[0-9a-f]{16}"));
}

TEST_CASE("a forced call that is cut off is text, and several answers have ids of their own") {
  if (is_skipped_without_grammar()) return;
  const RandomModel model("<tool_call>", "</tool_call>", kPlain);
  const Answers found =
      answer(plain_line(tools_with(kNamed) + R"(,"max_tokens":4)") +
                 plain_line(tools_with("\"required\"") + R"(,"temperature":0,"n":2)") +
                 plain_line(tools_with("\"none\"")),
             model.flags());
  REQUIRE(found.records.size() == 3);
  CHECK_FALSE(found.records[0].has("/tool_calls"));
  CHECK(found.records[0].text("/finish_reason") == "length");
  const Json& two = found.records[1];
  CHECK(two.text("/choices/0/text") == two.text("/choices/1/text"));
  CHECK(two.text("/choices/0/tool_calls/0/id") != two.text("/choices/1/tool_calls/0/id"));
  CHECK_FALSE(found.records[2].has("/tool_calls"));
}

TEST_CASE("a call that a model makes by itself is recognized") {
  if (is_skipped_without_grammar()) return;
  // Of models with this mark an object alone is a call.
  const RandomModel model("<|python_tag|>", "</tool_call>", kPlain);
  const std::string form =
      R"(,"guided_regex":"\\{\"name\": \"(move|jump)\", \"parameters\": \\{\"x\": [0-9]\\}\\}")";
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += openai_line(tools_with("\"auto\"") + form, i);
  const Answers found = answer(lines, model.flags());
  int num_calls = 0;
  for (const Json& record : found.records) {
    CAPTURE(record.line());
    const std::string choice = "/response/body/choices/0";
    if (record.text(choice + "/finish_reason") == "stop") {  // there is no such function
      CHECK(record.text(choice + "/message/content").starts_with(R"({"name": "jump")"));
      continue;
    }
    ++num_calls;
    CHECK(record.text(choice + "/finish_reason") == "tool_calls");
    CHECK(record.text(choice + "/message/tool_calls/0/function/name") == "move");
    CHECK(matches(record.text(choice + "/message/tool_calls/0/function/arguments"),
                  R"(\{"x":[0-9]\})"));
  }
  CHECK(num_calls > 0);
  CHECK(num_calls < 8);
}

TEST_CASE("a schema that is not supported is an error only where the call is forced") {
  if (is_skipped_without_grammar()) return;
  const RandomModel model("<tool_call>", "</tool_call>", kPlain);
  const std::string tools =
      R"("tools":[{"function":{"name":"a"}},{"function":{"name":"b","parameters":{"type":"object",)"
      R"("properties":{"x":{"not":{}}}}}}],"max_tokens":3,"tool_choice":)";
  const Answers found =
      answer(plain_line(tools + "\"required\"") +
                 plain_line(tools + R"({"type":"function","function":{"name":"b"}})") +
                 plain_line(tools + R"({"type":"function","function":{"name":"a"}})") +
                 plain_line(tools + "\"auto\""),
             model.flags());
  REQUIRE(found.records.size() == 4);
  for (const size_t i : {0, 1}) {
    CHECK(found.records[i].text("/error/code") == "unsupported_schema");
    CHECK(found.records[i]
              .text("/error/message")
              .starts_with("tools[1].function.parameters: #/properties/x/not: "));
  }
  CHECK_FALSE(found.records[2].has("/error"));
  CHECK_FALSE(found.records[3].has("/error"));
}

TEST_CASE("the form of an answer begins behind the thoughts, where a model thinks") {
  if (is_skipped_without_grammar()) return;
  const RandomModel model("<think>", "</think>", kThinking);
  // Likely enough to come some time, and the end of the turn too, which must not.
  const std::string bias = R"(,"temperature":1,"max_tokens":400,"logit_bias":{"1004":4,"1002":4})";
  const std::string form = R"("guided_regex":"[a-c]{3}")";
  std::string lines;
  constexpr int kNumLines = 10;
  for (int i = 0; i < kNumLines; ++i) {
    lines += plain_line(form + bias, i) +
             plain_line(form + bias + R"(,"chat_template_kwargs":{"enable_thinking":false})", i) +
             plain_line(tools_with(kNamed) + bias, i);
  }
  const Answers found = answer(lines, model.flags());
  REQUIRE(found.records.size() == 3 * kNumLines);
  int num_ended = 0;
  for (size_t i = 0; i < found.records.size(); i += 3) {
    const std::string text = found.records[i].text("/text");
    const std::string call = found.records[i + 2].text("/text");
    CAPTURE(text);
    CHECK(matches(found.records[i + 1].text("/text"), "[a-c]{3}"));
    const bool ended = found.records[i].text("/finish_reason") == "stop";
    CHECK((text.find("</think>") != text.npos) == ended);
    if (ended) CHECK(matches(text.substr(text.find("</think>")), "</think>[a-c]{3}"));
    num_ended += ended;
    if (found.records[i + 2].text("/finish_reason") == "length") continue;
    CHECK(found.records[i + 2].text("/finish_reason") == "tool_calls");
    CHECK(matches(call.substr(call.find("</think>")), "</think>" + kMove));
    CHECK(matches(found.records[i + 2].text("/tool_calls/0/function/arguments"), kMove));
  }
  CHECK(num_ended > kNumLines / 2);
  CHECK(answer(lines, model.flags() + Words{"--max-batch-size", "3", "--num-blocks", "90"}).out ==
        found.out);

  // Without the form the thoughts are the same.
  const std::string free_line =
      R"("id":1,"temperature":1,"max_tokens":6,"logit_bias":{"1002":-100})";
  const Answers both =
      answer(plain_line(free_line) + plain_line(form + "," + free_line), model.flags());
  CHECK(both.records.at(0).text("/text") == both.records.at(1).text("/text"));
}

TEST_CASE("a model without thoughts begins with the form") {
  if (is_skipped_without_grammar()) return;
  for (const auto& [first, second, chat_template] :
       {std::tuple("<think>", "</think>", kPlain), std::tuple("<a>", "</a>", kThinking)}) {
    const RandomModel model(first, second, chat_template);
    CHECK(answer(plain_line(R"("guided_choice":["yes"])"), model.flags())
              .records.at(0)
              .text("/text") == "yes");
  }
  const RandomModel amid("<think>", "</think>", kPlain + "<think>\n");
  CHECK(answer(plain_line(R"("guided_choice":["yes"],"logit_bias":{"1004":100})"), amid.flags())
            .records.at(0)
            .text("/text") == "</think>yes");
}

}  // namespace pagedinfer
