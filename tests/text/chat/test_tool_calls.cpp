// Calls of functions, in the formats that models are trained to call by.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/thought_marks.h"
#include "text/chat/tool_calls.h"

namespace pagedinfer {
namespace {

// A token for each byte, and behind them the marks.
class ByteTokenizer final : public Tokenizer {
 public:
  struct Mark {
    std::string text;
    bool is_special;
  };
  explicit ByteTokenizer(std::vector<Mark> marks) : marks_(std::move(marks)) {
    for (int byte = 0; byte < 256; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
  }

  std::vector<TokenId> encode(std::string_view text, AddBos) const override {
    std::vector<TokenId> tokens;
    while (!text.empty()) {
      const auto added = added_prefix(text);
      tokens.push_back(added ? added->id : static_cast<unsigned char>(text[0]));
      text.remove_prefix(added ? added->size : 1);
    }
    return tokens;
  }
  std::optional<AddedPrefix> added_prefix(std::string_view text) const override {
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (!text.starts_with(marks_[i].text)) continue;
      return AddedPrefix{static_cast<TokenId>(256 + i), marks_[i].text.size()};
    }
    return std::nullopt;
  }
  std::optional<TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::string_view token_bytes(TokenId token) const override {
    if (token < 256) return bytes_[static_cast<size_t>(token)];
    const Mark& mark = marks_[static_cast<size_t>(token) - 256];
    return mark.is_special ? "" : std::string_view(mark.text);
  }
  std::string_view special_text(TokenId token) const override {
    if (token < 256 || !marks_[static_cast<size_t>(token) - 256].is_special) return "";
    return marks_[static_cast<size_t>(token) - 256].text;
  }
  int vocab_size() const override { return static_cast<int>(256 + marks_.size()); }

 private:
  std::vector<Mark> marks_;
  std::vector<std::string> bytes_;
};

const ByteTokenizer kPairs({{"<tool_call>", false},
                            {"</tool_call>", false},
                            {"<think>", false},
                            {"</think>", false},
                            {"<|im_end|>", true}});
const ByteTokenizer kLists(
    {{"[TOOL_CALLS]", true}, {"[ARGS]", true}, {"[CALL_ID]", true}, {"</s>", true}});
const ByteTokenizer kTags({{"<|python_tag|>", true}, {"<|eom_id|>", true}, {"<|eot_id|>", true}});
const ByteTokenizer kBars({{"<|tool_call|>", true}, {"<|/tool_call|>", true}, {"<|end|>", true}});
const ByteTokenizer kNoMarks({});

ToolUse tools_of(ToolChoice choice) {
  return {.choice = choice, .names = {"add", "get \"it\""}, .named = 1};
}

// "CONTENT|NAME ARGUMENTS|NAME ARGUMENTS"; "none" without calls.
std::string calls_in(const Tokenizer& tokenizer, std::string_view text,
                     const ToolUse& tools = tools_of(ToolChoice::kAuto)) {
  const auto spoken = find_calls(tools, tokenizer, tokenizer.encode(text, AddBos::kNo));
  if (!spoken) return "none";
  std::string all = spoken->content;
  for (const ToolCall& call : spoken->calls) {
    CHECK(call.id == "");
    all.append("|").append(call.name).append(" ").append(call.arguments);
  }
  return all;
}

TEST_CASE("calls stand behind the marks of each format") {
  CHECK(calls_in(kPairs,
                 "Hm. <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"é\"}}\n"
                 "</tool_call><|im_end|>") == "Hm. |add {\"a\":1,\"b\":\"é\"}");
  CHECK(calls_in(kPairs,
                 "<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>\n<tool_call>"
                 "{\"name\":\"b\",\"arguments\":\"{\\\"x\\\": 1}\"}") == "|a {}|b {\"x\": 1}");
  CHECK(calls_in(kLists,
                 R"([TOOL_CALLS] [{"name": "a", "arguments": {"x": [1]}}, {"name": "b"}]</s>)") ==
        R"(|a {"x":[1]}|b {})");
  CHECK(calls_in(kLists,
                 R"(Yes.[TOOL_CALLS]a[ARGS]{"x": 1}[TOOL_CALLS]b_c[CALL_ID]q8[ARGS]{}</s>)") ==
        R"(Yes.|a {"x": 1}|b_c {})");
  CHECK(calls_in(kTags, R"(<|python_tag|>{"name": "a", "parameters": {"x": 2}}; )"
                        R"({"name": "b", "parameters": {}}<|eom_id|>)") == R"(|a {"x":2}|b {})");
  CHECK(
      calls_in(kBars,
               R"(<|tool_call|>[{"name": "a", "arguments": {"x": null}}]<|/tool_call|><|end|>)") ==
      R"(|a {"x":null})");
}

TEST_CASE("a model that may leave its mark out calls with nothing but objects of known names") {
  CHECK(calls_in(kTags, R"( {"name": "add", "parameters": {"x": 2}}<|eot_id|>)") ==
        R"(|add {"x":2})");
  for (const char* text : {R"({"name": "sub", "parameters": {}})", R"({"name": "add"} is JSON)",
                           R"(It is {"name": "add"})", R"({"sum": 3})", "{", ""}) {
    CAPTURE(text);
    CHECK(calls_in(kTags, text) == "none");
  }
  CHECK(calls_in(kNoMarks, R"({"name": "add", "parameters": {}})") == "none");
}

TEST_CASE("a mark counts as a token of its own only, and behind the thoughts") {
  const std::string text = "<tool_call>{\"name\":\"a\"}</tool_call>";
  CHECK(calls_in(kNoMarks, text) == "none");
  std::vector<TokenId> letters;
  for (const char c : text) letters.push_back(static_cast<unsigned char>(c));
  CHECK_FALSE(find_calls(tools_of(ToolChoice::kAuto), kPairs, letters));
  CHECK(calls_in(kPairs, "<think>" + text + "</think>") == "none");
  CHECK(calls_in(kPairs, "<think>x</think>\n" + text) == "<think>x</think>\n|a {}");
}

TEST_CASE("what is no call of its format, or cut off, stays text") {
  for (const char* text :
       {"<tool_call>{\"name\":\"a\",\"arguments\":{\"x\":",
        "<tool_call>{\"name\":\"\"}</tool_call>", "<tool_call>{\"arguments\":{}}</tool_call>",
        "<tool_call></tool_call>", "<tool_call>[]", "<tool_call>{\"name\":3}</tool_call>",
        "<tool_call>[1]</tool_call>", "</tool_call>", ""}) {
    CAPTURE(text);
    CHECK(calls_in(kPairs, text) == "none");
  }
  CHECK(calls_in(kTags, "<|python_tag|>print({\"a\":1})<|eom_id|>") == "none");
  CHECK(calls_in(kLists, "[TOOL_CALLS]a[ARGS]{\"x\":") == "none");
}

TEST_CASE("a forced call is what is said behind the thoughts") {
  const ToolUse required = tools_of(ToolChoice::kRequired), named = tools_of(ToolChoice::kNamed);
  CHECK(calls_in(kNoMarks, R"({"name":"get \"it\"","arguments":{"n":1.50}})", required) ==
        R"(|get "it" {"n":1.50})");
  CHECK(calls_in(kPairs, R"(<think>{</think>{"name":"add","arguments":[]}<|im_end|>)", required) ==
        "<think>{</think>|add []");
  CHECK(calls_in(kPairs, R"({"name":"add","arguments":{"n":)", required) == "none");
  CHECK(calls_in(kPairs, R"({"name":"sub","arguments":{}})", required) == "none");
  CHECK(calls_in(kPairs, R"({"n":12345678901234567890123}<|im_end|>)", named) ==
        R"(|get "it" {"n":12345678901234567890123})");
  CHECK(calls_in(kPairs, R"({"n":1)", named) == "none");
}

TEST_CASE("without parallel calls the first one counts, and with tool_choice none there are none") {
  const std::string text =
      "<tool_call>{\"name\":\"a\"}</tool_call><tool_call>{\"name\":\"b\"}</tool_call>";
  ToolUse one = tools_of(ToolChoice::kAuto);
  one.several = false;
  CHECK(calls_in(kPairs, text, one) == "|a {}");
  CHECK(calls_in(kPairs, text, tools_of(ToolChoice::kNone)) == "none");
}

TEST_CASE("an answer begins with thoughts unless the prompt has ended them") {
  CHECK_FALSE(thought_marks(kLists));
  const ThoughtMarks marks = thought_marks(kPairs).value();
  const auto begins = [&](std::string_view prompt, bool template_may_think) {
    return begins_with_thoughts(marks, kPairs, kPairs.encode(prompt, AddBos::kNo),
                                template_may_think);
  };
  for (const bool may : {false, true}) {
    CHECK(begins("user: hi\nassistant: <think>\n", may));
    CHECK_FALSE(begins("user: hi\nassistant: <think>\n\n</think>\n\n", may));
    CHECK(begins("<think>x</think> y\nuser: hi\nassistant:\n", may) == may);
    CHECK(begins("", may) == may);
  }
  CHECK(template_thinks("{% if enable_thinking %}"));
  CHECK_FALSE(template_thinks("{{ messages }}"));
}

}  // namespace
}  // namespace pagedinfer
