#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <string>
#include <utility>

#include "request/request_parser.h"

using namespace pagedinfer;

namespace {

ParsedLine parse_text(const std::string& text) {
  RequestParser parser({});
  return parser.parse(simdjson::padded_string(text), 3, 5);
}

ParsedLine parse_messages(const std::string& messages) {
  return parse_text(R"({"messages":)" + messages + "}");
}

ParsedLine parse_chat_body(const std::string& body) {
  return parse_text(R"({"custom_id":"c","url":"/v1/chat/completions","body":)" + body + "}");
}

}  // namespace

TEST_CASE("messages arrive in the request, in both forms of a line") {
  const std::string keys = R"("messages":[
      {"role":"system","content":"be\nkind","name":"n"},{"role":"developer","content":""},
      {"content":[{"type":"text","text":"a"},{"type":"text","text":" b"}],"role":"user"},
      {"role":"assistant","content":"\u00e9","reasoning_content":"hm","tool_calls":[]},
      {"role":"tool","content":"7","tool_call_id":"abc","tool_calls":null}],"max_tokens":4)";
  const std::pair<ParsedLine, RecordForm> lines[] = {
      {parse_text("{" + keys + "}"), RecordForm::kPlain},
      {parse_chat_body("{" + keys + "}"), RecordForm::kOpenAiChat}};
  for (const auto& [line, form] : lines) {
    CHECK(line.error.message == "");
    const RequestDraft& request = line.request;
    CHECK(request.head.form == form);
    CHECK(request.has_messages);
    CHECK_FALSE(request.prompt);
    CHECK(request.sampling.max_tokens == 4);
    CHECK(request.chat.messages ==
          R"([{"role":"system","content":"be\nkind","name":"n"},{"role":"developer","content":""},)"
          R"({"content":[{"type":"text","text":"a"},{"type":"text","text":" b"}],"role":"user"},)"
          "{\"role\":\"assistant\",\"content\":\"\u00e9\",\"reasoning_content\":\"hm\",\"tool_"
          "calls\":[]},"
          R"({"role":"tool","content":"7","tool_call_id":"abc","tool_calls":null}])");
    CHECK(request.chat.add_generation_prompt);
    CHECK(request.chat.template_arguments == "");
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
      {R"([{"role":"","content":"x"}])",
       "messages[0].role: found \"\", expected a role, such as user or assistant"},
      {R"([{"role":7,"content":"x"}])",
       "messages[0].role: found 7, expected a role, such as user or assistant"},
      {R"([{"role":"assistant"}])", "messages[0].content: found nothing, expected a string"}};
  for (const auto& [messages, expected] : cases) {
    CAPTURE(messages);
    const auto line = parse_messages(messages);
    CHECK(line.error.code == "invalid_value");
    CHECK(line.error.message == expected);
  }
  CHECK(parse_chat_body(R"({"messages":[7]})").error.message ==
        "body.messages[0]: found 7, expected an object with role and content");
}

TEST_CASE("a template decides which values of a message it takes") {
  for (const char* message :
       {R"({"role":"user","content":7})", R"({"role":"user","content":false})",
        R"({"role":"user","content":[]})", R"({"role":"user","content":["x"]})",
        R"({"role":"user","content":[{"text":"x"}]})", R"({"role":"tool","content":{"sum":7}})",
        R"({"role":"user","content":[{"type":"text","text":7}]})",
        R"({"role":"assistant","content":"x","reasoning_content":[7]})",
        R"({"role":"assistant","tool_calls":{}})", R"({"role":"assistant","tool_calls":"x"})",
        R"({"role":"tool","content":"x","name":7,"tool_call_id":7})"}) {
    const auto line = parse_messages("[" + std::string(message) + "]");
    CHECK(line.error.message == "");
    CHECK(line.request.chat.messages == "[" + std::string(message) + "]");
  }
}

TEST_CASE("pictures and sounds are not supported") {
  const std::string user = R"("messages":[{"role":"user","content":"x"}],)";
  for (const std::string& keys :
       {std::string(
            R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
        std::string(R"("messages":[{"role":"user","content":[{"type":"input_audio"}]}])"),
        std::string(R"("messages":[{"role":"user","content":[{"type":"Image"}]}])"),
        std::string(R"("messages":[{"role":"user","content":)"
                    R"([{"type":"text","text":"x","image_url":"x"}]}])"),
        user + R"("chat_template":"{{ x }}")", user + R"("functions":[{}])",
        user + R"("tools":[{"type":"custom"}])"}) {
    CAPTURE(keys);
    for (const auto& line : {parse_text("{" + keys + "}"), parse_chat_body("{" + keys + "}")}) {
      CHECK(line.error.code == "unsupported");
    }
  }
}

TEST_CASE("what templates are told arrives as the line has it") {
  const std::string user = R"("messages":[{"role":"user","content":"x"}],)";
  const auto chat = [&](const std::string& keys) {
    const ParsedLine line = parse_text("{" + user + keys + "}");
    CHECK(line.error.message == "");
    return line.request.chat;
  };
  const Chat all = chat(
      R"("tools":[{"type":"function","function":{"name":"f","x":1.50}}],"documents":[{"title":"t"}],
      "tool_choice":"auto","chat_template_kwargs":{"enable_thinking":false,"deep":{"a":[null]}})");
  CHECK(all.tools == R"([{"type":"function","function":{"name":"f","x":1.5}}])");
  CHECK(all.documents == R"([{"title":"t"}])");
  CHECK(all.template_arguments == R"({"enable_thinking":false,"deep":{"a":[null]}})");
  CHECK(chat(R"("tools":[],"tool_choice":"none")").tools == "[]");
  CHECK(chat(R"("reasoning_effort":"high")").reasoning_effort == "high");
  CHECK(chat(R"("verbosity":"low","reasoning_effort":null)").verbosity == "low");
  CHECK(chat(R"("tools":null,"chat_template_kwargs":{})").template_arguments == "");
  CHECK(chat(R"("add_generation_prompt":false)").add_generation_prompt == false);
  CHECK(chat(R"("continue_final_message":true)").continued_field == "content");
  CHECK(chat(R"("continue_final_message":"thinking")").continued_field == "thinking");
  CHECK_FALSE(chat(R"("continue_final_message":true)").add_generation_prompt);
  CHECK(chat(R"("continue_final_message":false)").add_generation_prompt);
  for (const char* keys : {R"("tools":{})", R"("tools":[7])", R"("documents":"x")",
                           R"("chat_template_kwargs":7)", R"("chat_template_kwargs":{"tools":[]})",
                           R"("add_generation_prompt":1)", R"("continue_final_message":7)",
                           R"("continue_final_message":true,"add_generation_prompt":true)"}) {
    CAPTURE(keys);
    CHECK(parse_text("{" + user + keys + "}").error.code == "invalid_value");
  }
}

TEST_CASE("tools are functions with names of their own") {
  const auto error = [](const std::string& keys) {
    return parse_chat_body(R"({"messages":[{"role":"user","content":"x"}],)" + keys + "}").error;
  };
  const std::string two =
      R"("tools":[{"function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";
  CHECK(error(two).code == "");
  CHECK(error(two + R"(,"tool_choice":"always")").message ==
        R"(body.tool_choice: found "always", expected "none", "auto", "required" or )"
        R"({"type": "function", "function": {"name": ...}})");
  CHECK(error(two + R"(,"tool_choice":{"type":"function","function":{"name":"h"}})").message ==
        R"(body.tool_choice.function.name: found "h", expected the name of a function of tools)");
  CHECK(error(R"("tool_choice":"required")").message ==
        R"(body.tool_choice: found "required", expected tools to call beside it)");
  CHECK(error(two + R"(,"tool_choice":"required","guided_regex":"a")").message ==
        "body.tool_choice: found a forced call beside a form of the answer, expected one of them");
  CHECK(error(two + R"(,"tool_choice":"required","response_format":{"type":"text"})").code == "");
  CHECK(error(R"("tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])").message ==
        R"(body.tools[1].function.name: found "f" again, expected another name for each function)");
  CHECK(error(R"("tools":[{"type":"custom"}])").message ==
        R"(body.tools[0].type: found "custom"; this version does not support it)");
  CHECK(
      error(R"("tools":[{"function":{"name":"f","parameters":[]}}])").message ==
      "body.tools[0].function.parameters: found an empty list, expected a JSON schema, an object");
  for (const char* function : {"{}", R"({"name":""})", R"({"name":3})"}) {
    CHECK(error(fmt::format(R"("tools":[{{"function":{}}}])", function)).message ==
          "body.tools[0].function: found no name, expected a name, a string that is not empty");
  }
  for (const char* tool : {"{}", R"({"type":"function"})", R"({"function":[]})"}) {
    CHECK(error(fmt::format(R"("tools":[{}])", tool)).code == "invalid_value");
  }
}

TEST_CASE("a forced call is the form of the answer") {
  const auto draft = [](const std::string& choice) {
    const ParsedLine line = parse_text(
        R"({"messages":[{"role":"user","content":"x"}],"tools":[{"function":{"name":"f"}},)"
        R"({"function":{"name":"g","parameters":{"type":"object"}}}],"tool_choice":)" +
        choice + "}");
    CHECK(line.error.message == "");
    return line.request;
  };
  const std::string none = R"({"type":"object","properties":{},"additionalProperties":false})";
  const RequestDraft one = draft("\"required\"");
  CHECK(one.tools.choice == ToolChoice::kRequired);
  CHECK(one.tools.names == SharedList<std::string>{"f", "g"});
  CHECK(one.sampling.form ==
        AnswerForm{.kind = FormKind::kCall, .texts = {"f", none, "g", R"({"type":"object"})"}});
  const RequestDraft named = draft(R"({"type":"function","function":{"name":"g"}})");
  CHECK(named.tools.choice == ToolChoice::kNamed);
  CHECK(named.tools.named == 1);
  CHECK(named.sampling.form ==
        AnswerForm{.kind = FormKind::kJsonSchema, .texts = {R"({"type":"object"})"}});
  CHECK(draft("null").tools.choice == ToolChoice::kAuto);
  CHECK(draft("\"none\"").tools.choice == ToolChoice::kNone);
  CHECK(draft("\"auto\"").sampling.form.is_free());
}

TEST_CASE("an assistant that calls a tool or thinks need not say anything") {
  for (const char* message :
       {R"({"role":"assistant","content":null,"tool_calls":[{"type":"function"}]})",
        R"({"role":"assistant","reasoning_content":"hm"})",
        R"({"role":"assistant","function_call":{"name":"f"}})",
        R"({"role":"ipython","content":"7"})"}) {
    CAPTURE(message);
    CHECK(parse_messages("[" + std::string(message) + "]").error.message == "");
  }
}

TEST_CASE("each endpoint takes its own kind of prompt") {
  const std::string messages = R"("messages":[{"role":"user","content":"x"}])";
  const auto completion = [](const std::string& body) {
    return parse_text(R"({"url":"/v1/completions","body":{)" + body + "}}").error;
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

TEST_CASE("unknown keys within messages are counted") {
  RequestParser parser({});
  const simdjson::padded_string line = std::string(
      R"({"messages":[{"role":"user","content":"x","mood":"good"},{"role":"user","content":"x",
          "mood":1,"audio":null}]})");
  CHECK(parser.parse(line, 0, 1).error.message == "");
  CHECK(parser.take_unknown_keys() == RequestParser::UnknownKeys{{"mood", 2}});
}
