#include <doctest/doctest.h>
#include <simdjson.h>

#include <string>
#include <utility>

#include "request/request_parser.h"

using namespace pagedinfer;

namespace {

ParsedLine parse(const std::string& text) {
  RequestParser parser({});
  return parser.parse(simdjson::padded_string(text), 3, 5);
}

ParsedLine parse_messages(const std::string& messages) {
  return parse(R"({"messages":)" + messages + "}");
}

ParsedLine parse_chat_body(const std::string& body) {
  return parse(R"({"custom_id":"c","url":"/v1/chat/completions","body":)" + body + "}");
}

}  // namespace

TEST_CASE("messages arrive in the request, in both forms of a line") {
  const std::string keys = R"("messages":[
      {"role":"system","content":"be\nkind","name":"n"},{"role":"developer","content":""},
      {"content":[{"type":"text","text":"a"},{"type":"text","text":" b"}],"role":"user"},
      {"role":"assistant","content":"\u00e9","reasoning_content":"hm","tool_calls":[]},
      {"role":"tool","content":"7","tool_call_id":"abc","tool_calls":null}],"max_tokens":4)";
  const std::pair<ParsedLine, RecordForm> lines[] = {
      {parse("{" + keys + "}"), RecordForm::kPlain},
      {parse_chat_body("{" + keys + "}"), RecordForm::kOpenAiChat}};
  for (const auto& [line, form] : lines) {
    CHECK(line.error.message == "");
    const RequestDraft& request = line.request;
    CHECK(request.head.form == form);
    CHECK(request.has_messages);
    CHECK_FALSE(request.prompt);
    CHECK(request.sampling.max_tokens == 4);
    const auto& messages = request.chat.messages;
    REQUIRE(messages.size() == 5);
    CHECK(messages[0].role == "system");
    CHECK(messages[0].content == "be\nkind");
    CHECK(messages[0].parts.empty());
    CHECK(messages[1].role == "developer");
    CHECK(messages[1].content == "");
    CHECK(messages[2].content == "a\n b");
    CHECK(messages[2].parts == std::vector<std::string>{"a", " b"});
    CHECK(messages[3].content == "\xC3\xA9");
    CHECK(messages[3].reasoning == "hm");
    CHECK_FALSE(messages[2].reasoning);
    CHECK(messages[4].tool_call_id == "abc");
    CHECK(request.chat.add_generation_prompt);
    CHECK_FALSE(request.chat.enable_thinking);
  }
}

TEST_CASE("an error in a message names its place") {
  const std::pair<const char*, const char*> cases[] = {
      {R"(7)", "messages: found 7, expected a list of messages"},
      {R"("x")", "messages: found \"x\", expected a list of messages"},
      {R"([7])", "messages[0]: found 7, expected an object with role and content"},
      {R"([{"role":"user","content":"x"},{}])",
       "messages[1].role: found nothing, expected a string"},
      {R"([{"role":"user"}])", "messages[0].content: found nothing, expected a string"},
      {R"([{"role":"user","content":null}])",
       "messages[0].content: found nothing, expected a string"},
      {R"([{"role":"pirate","content":"x"}])",
       "messages[0].role: found \"pirate\", expected system, developer, user, assistant or tool"},
      {R"([{"role":7,"content":"x"}])",
       "messages[0].role: found 7, expected system, developer, user, assistant or tool"},
      {R"([{"role":"user","content":7}])",
       "messages[0].content: found 7, expected a string or a list of texts"},
      {R"([{"role":"user","content":[]}])",
       "messages[0].content: found an empty list, expected a string or a list of texts"},
      {R"([{"role":"user","content":["x"]}])",
       R"(messages[0].content[0]: found "x", expected {"type": "text", "text": ...})"},
      {R"([{"role":"user","content":[{"type":"text","text":7}]}])",
       R"(messages[0].content[0]: found an object, expected {"type": "text", "text": ...})"},
      {R"([{"role":"assistant","content":"x","reasoning_content":7}])",
       "messages[0].reasoning_content: found 7, expected a string"},
      {R"([{"role":"tool","content":"x","tool_call_id":7}])",
       "messages[0].tool_call_id: found 7, expected a string"}};
  for (const auto& [messages, expected] : cases) {
    CAPTURE(messages);
    const auto line = parse_messages(messages);
    CHECK(line.error.code == "invalid_value");
    CHECK(line.error.message == expected);
  }
  CHECK(parse_chat_body(R"({"messages":[7]})").error.message ==
        "body.messages[0]: found 7, expected an object with role and content");
}

TEST_CASE("tools, images and other settings of templates are not supported") {
  for (const char* keys :
       {R"("messages":[{"role":"assistant","content":null,"tool_calls":[{}]}])",
        R"("messages":[{"role":"assistant","content":"","function_call":{"name":"f"}}])",
        R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
        R"("messages":[{"role":"user","content":"x"}],"tools":[{}])",
        R"("messages":[{"role":"user","content":"x"}],"chat_template":"{{ x }}")",
        R"("messages":[{"role":"user","content":"x"}],"continue_final_message":true)",
        R"("messages":[{"role":"user","content":"x"}],"documents":[{}])",
        R"("messages":[{"role":"user","content":"x"}],"reasoning_effort":"high")",
        R"("messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"date":"x"})"}) {
    CAPTURE(keys);
    for (const auto& line :
         {parse("{" + std::string(keys) + "}"), parse_chat_body("{" + std::string(keys) + "}")}) {
      CHECK(line.error.code == "unsupported");
    }
  }
}

TEST_CASE("each endpoint takes its own kind of prompt") {
  const std::string messages = R"("messages":[{"role":"user","content":"x"}])";
  const auto completion = [](const std::string& body) {
    return parse(R"({"url":"/v1/completions","body":{)" + body + "}}").error;
  };
  const auto chat = [](const std::string& body) { return parse_chat_body("{" + body + "}").error; };
  CHECK(chat(messages).code == "");
  CHECK(chat(R"("messages":[])").code == "");  // is left to be judged with other empty prompts
  CHECK(chat(R"("messages":null)").code == "missing_prompt");
  CHECK(chat(R"("prompt":"x")").code == "missing_prompt");
  CHECK(chat(R"("prompt":"x",)" + messages).code == "ambiguous_prompt");
  CHECK(chat(R"("prompt_token_ids":[7],)" + messages).code == "ambiguous_prompt");
  CHECK(completion(messages).code == "invalid_value");
  CHECK(completion(messages).message.find("/v1/chat/completions") != std::string::npos);
  CHECK(completion(R"("prompt":"x",)" + messages).code == "ambiguous_prompt");
}

TEST_CASE("the longest completion has a second name") {
  const auto tokens = [](const std::string& keys) {
    return parse_chat_body(R"({"messages":[{"role":"user","content":"x"}],)" + keys + "}");
  };
  CHECK(tokens(R"("max_completion_tokens":9)").request.sampling.max_tokens == 9);
  CHECK(tokens(R"("max_completion_tokens":9,"max_tokens":9)").request.sampling.max_tokens == 9);
  CHECK(tokens(R"("max_completion_tokens":9,"max_tokens":null)").request.sampling.max_tokens == 9);
  CHECK(tokens(R"("max_completion_tokens":null,"max_tokens":8)").request.sampling.max_tokens == 8);
  CHECK(tokens(R"("max_completion_tokens":9,"max_tokens":8)").error.message ==
        "body.max_completion_tokens: found 9, expected the same as max_tokens, which is 8");
  CHECK(tokens(R"("max_completion_tokens":0)").error.code == "invalid_value");
  CHECK(tokens(R"("max_completion_tokens":9,"min_tokens":10)").error.code == "invalid_value");
}

TEST_CASE("a line switches thinking and the assistant's beginning") {
  const auto chat = [](const std::string& keys) {
    const auto line = parse(R"({"prompt":"x",)" + keys + "}");
    CHECK(line.error.message == "");
    return line.request.chat;
  };
  CHECK(chat(R"("chat_template_kwargs":{"enable_thinking":false})").enable_thinking == false);
  CHECK(chat(R"("chat_template_kwargs":{"enable_thinking":true})").enable_thinking == true);
  CHECK_FALSE(chat(R"("chat_template_kwargs":{"enable_thinking":null,"x":null})").enable_thinking);
  CHECK_FALSE(chat(R"("add_generation_prompt":false)").add_generation_prompt);
  for (const char* keys : {R"("chat_template_kwargs":7)", R"("add_generation_prompt":1)",
                           R"("chat_template_kwargs":{"enable_thinking":"no"})"}) {
    CHECK(parse(R"({"prompt":"x",)" + std::string(keys) + "}").error.code == "invalid_value");
  }
}

TEST_CASE("unknown keys within messages are counted") {
  RequestParser parser({});
  const simdjson::padded_string line = std::string(
      R"({"messages":[{"role":"user","content":"x","mood":"good"},{"role":"user","content":"x",
          "mood":1,"audio":null}]})");
  CHECK(parser.parse(line, 0, 1).error.message == "");
  CHECK(parser.unknown_keys() == RequestParser::UnknownKeys{{"mood", 2}});
}
