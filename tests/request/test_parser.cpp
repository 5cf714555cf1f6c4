#include <doctest/doctest.h>
#include <simdjson.h>

#include <string>
#include <vector>

#include "io/line_reader.h"
#include "request/request_parser.h"

using namespace pagedinfer;

namespace {

ParsedLine parse(RequestParser& parser, const std::string& text) {
  const simdjson::padded_string padded(text);
  return parser.parse(padded, 3, 5);
}

ParsedLine parse(const std::string& text) {
  RequestParser parser({});
  return parse(parser, text);
}

std::string code_of(const std::string& text) { return std::string(parse(text).error.code.name()); }

std::string batch(const std::string& body) {
  return R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":)" + body + "}";
}

}  // namespace

TEST_CASE("a line's values arrive in its request") {
  const auto line = parse(
      R"({"id":"a\u0041\n","prompt":"h\u00e9llo\u0000","max_tokens":7,"min_tokens":2,"temperature":0.5,
      "top_p":0.9,"top_k":40,"min_p":0.05,"repetition_penalty":1.1,"presence_penalty":-2,
      "frequency_penalty":2,"logit_bias":{"7":-100,"3":1.5,"07":4},"seed":-1,"stop":["x","y"],
      "stop_token_ids":[1,2147483647],"ignore_eos":true})");
  CHECK(line.error.message == "");
  REQUIRE_FALSE(line.failed());
  const RequestDraft& request = line.request;
  CHECK(request.head.index == 3);
  CHECK(request.head.line == 5);
  CHECK(request.head.id_json == R"("aA\n")");
  CHECK(request.head.form == RecordForm::kPlain);
  CHECK(*request.prompt == std::string("h\xC3\xA9llo\0", 7));
  CHECK(request.prompt_token_ids.empty());
  const SamplingParams& sampling = request.sampling;
  CHECK(sampling.max_tokens == 7);
  CHECK(sampling.min_tokens == 2);
  CHECK(sampling.temperature == 0.5f);
  CHECK(sampling.top_p == 0.9f);
  CHECK(sampling.top_k == 40);
  CHECK(sampling.min_p == 0.05f);
  CHECK(sampling.repetition_penalty == 1.1f);
  CHECK(sampling.presence_penalty == -2.0f);
  CHECK(sampling.frequency_penalty == 2.0f);
  REQUIRE(sampling.logit_bias.size() == 2);
  CHECK(sampling.logit_bias[0].token == 3);
  CHECK(sampling.logit_bias[0].bias == 1.5f);
  CHECK(sampling.logit_bias[1].token == 7);
  CHECK(sampling.logit_bias[1].bias == 4.0f);
  CHECK(sampling.seed == ~uint64_t{0});
  CHECK(sampling.stop == std::vector<std::string>{"x", "y"});
  CHECK(sampling.stop_token_ids == std::vector<TokenId>{1, 2147483647});
  CHECK(sampling.ignore_eos);
}

TEST_CASE("a line says how many completions its prompt gets") {
  CHECK(parse(R"({"prompt":"x"})").request.sampling.n == 1);
  CHECK(parse(R"({"prompt":"x","n":64})").request.sampling.n == 64);
  CHECK(parse(batch(R"({"prompt":"x","n":3})")).request.sampling.n == 3);
  CHECK_FALSE(parse(R"({"prompt":"x","n":3})").request.sampling.best_of);
  CHECK(parse(R"({"prompt":"x","n":3,"best_of":3})").request.sampling.best_of == 3);
  CHECK(parse(R"({"prompt":"x","n":3,"best_of":2})").error.message ==
        "best_of: found 2, expected at least n, which is 3");
  CHECK(parse(batch(R"({"prompt":"x","min_tokens":9,"max_tokens":8})")).error.message ==
        "body.min_tokens: found 9, expected at most body.max_tokens, which is 8");
}

TEST_CASE("a line asks for log probabilities, in the words of its form") {
  const auto count = [](const std::string& line) {
    const ParsedLine parsed = parse(line);
    CAPTURE(line);
    CHECK(parsed.error.message == "");
    return parsed.request.sampling.num_log_probs;
  };
  const auto chat = [](const std::string& settings) {
    return R"({"custom_id":1,"url":"/v1/chat/completions","body":{"messages":[{"role":"user",)"
           R"("content":"x"}])" +
           settings + "}}";
  };
  CHECK(count(R"({"prompt":"x"})") == -1);
  CHECK(count(R"({"prompt":"x","logprobs":0})") == 0);
  CHECK(count(R"({"prompt":"x","logprobs":20,"top_logprobs":0})") == 20);
  CHECK(count(batch(R"({"prompt":"x","logprobs":3})")) == 3);
  CHECK(count(batch(R"({"prompt":"x","logprobs":false})")) == -1);
  CHECK(count(R"({"messages":[{"role":"user","content":"x"}],"logprobs":4})") == 4);
  CHECK(count(chat("")) == -1);
  CHECK(count(chat(R"(,"logprobs":true)")) == 0);
  CHECK(count(chat(R"(,"logprobs":true,"top_logprobs":20)")) == 20);
  CHECK(count(chat(R"(,"logprobs":false,"top_logprobs":0)")) == -1);
  for (const char* wrong :
       {R"(,"logprobs":3)", R"(,"top_logprobs":3)", R"(,"logprobs":true,"top_logprobs":21)",
        R"(,"logprobs":true,"top_logprobs":true)", R"(,"logprobs":false,"top_logprobs":2)"}) {
    CHECK_MESSAGE(code_of(chat(wrong)) == "invalid_value", wrong);
  }
  CHECK(parse(chat(R"(,"top_logprobs":3)")).error.message ==
        "body.top_logprobs: found 3, expected logprobs true beside it");
  CHECK(parse(R"({"prompt":"x","logprobs":true})").error.message ==
        "logprobs: found true, expected an integer from 0 to 20");
}

TEST_CASE("a line overrides the defaults with what it says, and with nothing else") {
  SamplingParams defaults;
  defaults.max_tokens = 9;
  defaults.top_k = 5;
  defaults.stop = {"end"};
  defaults.seed = 4;
  RequestParser parser(defaults);
  const auto silent = parse(parser, R"({"prompt":"x","max_tokens":null,"stop":null})");
  CHECK(silent.request.sampling.max_tokens == 9);
  CHECK(silent.request.sampling.top_k == 5);
  CHECK(silent.request.sampling.stop == defaults.stop);
  CHECK(silent.request.sampling.seed == 4);
  const auto loud = parse(parser, R"({"prompt":"x","max_tokens":1,"top_k":-1,"stop":[],
                                      "seed":18446744073709551615})");
  CHECK(loud.request.sampling.max_tokens == 1);
  CHECK(loud.request.sampling.top_k == 0);
  CHECK(loud.request.sampling.stop.empty());
  CHECK(loud.request.sampling.seed == ~uint64_t{0});
  CHECK(parse(parser, R"({"prompt":"x","stop":"one"})").request.sampling.stop ==
        std::vector<std::string>{"one"});
}

TEST_CASE("every kind of bad line has its code") {
  const std::pair<const char*, const char*> cases[] = {
      {"invalid_json", "{"},
      {"invalid_json", R"({"prompt":"x"} y)"},
      {"invalid_json", R"({"prompt":"x",})"},
      {"invalid_json", R"({"prompt":"x})"},
      {"invalid_json", R"({"prompt":"\ud800"})"},
      {"invalid_json", R"({"prompt":"\udc00 \ud800"})"},
      {"invalid_json", R"({"prompt":"x","seed":1e999})"},
      {"invalid_json", R"({"prompt":"x","seed":18446744073709551616})"},
      {"invalid_json", R"({"prompt":"x","id":-123456789012345678901234567890})"},
      {"invalid_json", R"({"prompt":"x","temperature":NaN})"},
      {"invalid_json", "{\"prompt\":\"a\tb\"}"},
      {"invalid_utf8", "{\"prompt\":\"\xFF\"}"},
      {"invalid_utf8", "{\"prompt\":\"\xED\xA0\x80\"}"},
      {"invalid_utf8", "\xFF\xFE"},
      {"not_an_object", "[]"},
      {"not_an_object", "7"},
      {"not_an_object", R"("prompt")"},
      {"missing_prompt", "{}"},
      {"missing_prompt", R"({"prompt":null})"},
      {"missing_prompt", R"({"messages":[]})"},
      {"ambiguous_prompt", R"({"prompt":"x","prompt_token_ids":[1]})"},
      {"ambiguous_prompt", R"({"prompt":"x","messages":[{"role":"user","content":"x"}]})"},
      {"ambiguous_prompt",
       R"({"prompt_token_ids":[1],"messages":[{"role":"user","content":"x"}]})"},
      {"invalid_value", R"({"prompt":"x","n":0})"},
      {"invalid_value", R"({"prompt":"x","n":65})"},
      {"unsupported", R"({"prompt":"x","num_return_sequences":2})"},
      {"invalid_value", R"({"prompt":"x","n":"x"})"},
      {"invalid_value", R"({"prompt":"x","best_of":[1]})"},
      {"invalid_value", R"({"prompt":"x","best_of":65})"},
      {"invalid_value", R"({"prompt":"x","n":3,"best_of":2})"},
      {"invalid_value", R"({"prompt":"x","beam_width":65})"},
      {"invalid_value", R"({"prompt":"x","beam_width":"4"})"},
      {"invalid_value", R"({"prompt":"x","length_penalty":0.5})"},
      {"invalid_value", R"({"prompt":"x","early_stopping":true})"},
      {"invalid_value", R"({"prompt":"x","beam_width":2,"early_stopping":"always"})"},
      {"invalid_value", R"({"prompt":"x","beam_width":2,"length_penalty":6})"},
      {"invalid_value", R"({"prompt":"x","beam_width":2,"length_penalty":"long"})"},
      {"invalid_value", R"({"prompt":"x","logprobs":21})"},
      {"invalid_value", R"({"prompt":"x","logprobs":-1})"},
      {"invalid_value", R"({"prompt":"x","logprobs":true})"},
      {"invalid_value", R"({"prompt":"x","logprobs":true,"top_logprobs":3})"},
      {"invalid_value", R"({"prompt":"x","logprobs":2,"top_logprobs":3})"},
      {"invalid_value", R"({"prompt":"x","top_logprobs":"3"})"},
      {"unsupported", R"({"prompt":"x","n_probs":3})"},
      {"invalid_value", R"({"prompt":"x","prompt_logprobs":21})"},
      {"invalid_value", R"({"prompt":"x","prompt_logprobs":true})"},
      {"invalid_value", R"({"prompt":"x","echo":1})"},
      {"invalid_value", R"({"prompt":"x","arrival_s":-0.5})"},
      {"unsupported", R"({"prompt":"x","functions":[{}]})"},
      {"invalid_value", R"({"prompt":"x","tool_choice":"required"})"},
      {"unsupported", R"({"prompt":"x","response_format":{"type":"structural_tag"}})"},
      {"invalid_value", R"({"prompt":7})"},
      {"invalid_value", R"({"prompt":["x"]})"},
      {"invalid_value", R"({"prompt_token_ids":"x"})"},
      {"invalid_value", R"({"prompt_token_ids":[-1]})"},
      {"invalid_value", R"({"prompt_token_ids":[2147483648]})"},
      {"invalid_value", R"({"prompt_token_ids":[1,"2"]})"},
      {"invalid_value", R"({"prompt":"x","id":1.5})"},
      {"invalid_value", R"({"prompt":"x","id":true})"},
      {"invalid_value", R"({"prompt":"x","id":[]})"},
      {"invalid_value", R"({"prompt":"x","max_tokens":0})"},
      {"invalid_value", R"({"prompt":"x","max_tokens":1.5})"},
      {"invalid_value", R"({"prompt":"x","max_tokens":"5"})"},
      {"invalid_value", R"({"prompt":"x","max_tokens":true})"},
      {"invalid_value", R"({"prompt":"x","max_tokens":2147483648})"},
      {"invalid_value", R"({"prompt":"x","max_tokens":18446744073709551615})"},
      {"invalid_value", R"({"prompt":"x","min_tokens":-1})"},
      {"invalid_value", R"({"prompt":"x","min_tokens":3,"max_tokens":2})"},
      {"invalid_value", R"({"prompt":"x","temperature":-0.1})"},
      {"invalid_value", R"({"prompt":"x","temperature":1e300})"},
      {"invalid_value", R"({"prompt":"x","temperature":"hot"})"},
      {"invalid_value", R"({"prompt":"x","top_p":0})"},
      {"invalid_value", R"({"prompt":"x","top_p":1e-300})"},
      {"invalid_value", R"({"prompt":"x","top_p":1.1})"},
      {"invalid_value", R"({"prompt":"x","top_k":-2})"},
      {"invalid_value", R"({"prompt":"x","min_p":1.5})"},
      {"invalid_value", R"({"prompt":"x","repetition_penalty":0})"},
      {"invalid_value", R"({"prompt":"x","presence_penalty":2.5})"},
      {"invalid_value", R"({"prompt":"x","frequency_penalty":-2.5})"},
      {"invalid_value", R"({"prompt":"x","seed":0.5})"},
      {"invalid_value", R"({"prompt":"x","ignore_eos":1})"},
      {"invalid_value", R"({"prompt":"x","stop":7})"},
      {"invalid_value", R"({"prompt":"x","stop":[""]})"},
      {"invalid_value", R"({"prompt":"x","stop":["a",null]})"},
      {"invalid_value", R"({"prompt":"x","stop_token_ids":7})"},
      {"invalid_value", R"({"prompt":"x","logit_bias":[1]})"},
      {"invalid_value", R"({"prompt":"x","logit_bias":{"a":1}})"},
      {"invalid_value", R"({"prompt":"x","logit_bias":{"-1":1}})"},
      {"invalid_value", R"({"prompt":"x","logit_bias":{"1":101}})"},
      {"invalid_value", R"({"prompt":"x","logit_bias":{"1":"x"}})"},
      {"invalid_value", R"({"custom_id":"c","prompt":"x"})"},
      {"invalid_value", R"({"url":"/v1/embeddings","body":{"prompt":"x"}})"},
      {"invalid_value", R"({"custom_id":"c","body":{"prompt":"x"}})"},
      {"invalid_value", R"({"url":"/v1/completions","body":7})"},
      {"invalid_value", R"({"method":"GET","url":"/v1/completions","body":{"prompt":"x"}})"},
      {"invalid_value", R"({"url":"/v1/chat/completions","body":7})"},
  };
  for (const auto& [code, text] : cases) {
    const auto line = parse(text);
    CAPTURE(text);
    CAPTURE(line.error.message);
    CHECK(line.error.code == code);
    CHECK(line.error.message.size() > 10);
  }
  CHECK(code_of(std::string(100000, '[')) == "invalid_json");
  CHECK(code_of(R"({"prompt":"x","a":)" + std::string(100000, '[')) == "invalid_json");
  CHECK(code_of(std::string("{\"prompt\":\"x\"\0}", 14)) == "invalid_json");
}

TEST_CASE("a line says how a beam search ranks and ends") {
  const BeamSettings usual = parse(R"({"prompt":"x","beam_width":4})").request.sampling.beams;
  CHECK(usual.width == 4);
  CHECK(usual.length_penalty == 1);
  CHECK(usual.early_stopping == EarlyStopping::kOff);
  const BeamSettings given =
      parse(R"({"prompt":"x","beam_width":2,"length_penalty":-2.5,"early_stopping":"never"})")
          .request.sampling.beams;
  CHECK(given.length_penalty == -2.5);
  CHECK(given.early_stopping == EarlyStopping::kNever);
  const BeamSettings at_once =
      parse(R"({"prompt":"x","beam_width":2,"early_stopping":true})").request.sampling.beams;
  CHECK(at_once.early_stopping == EarlyStopping::kOn);
}

TEST_CASE("settings of draws are refused beside a beam search unless they are neutral") {
  const std::string line = R"({"prompt":"x","beam_width":4,)";
  for (const char* value :
       {R"("temperature":0.5)", R"("top_k":3)", R"("top_p":0.5)", R"("min_p":0.5)",
        R"("repetition_penalty":1.1)", R"("presence_penalty":1)", R"("frequency_penalty":-1)",
        R"("best_of":4)", R"("stop":"a")", R"("logprobs":0)", R"("logit_bias":{"3":1})",
        R"("allowed_token_ids":[1])", R"("n":5)"}) {
    INFO(value);
    CHECK(code_of(line + value + "}") == "invalid_value");
  }
  for (const char* value :
       {R"("temperature":0)", R"("top_k":0)", R"("top_p":1)", R"("min_p":0)",
        R"("repetition_penalty":1)", R"("best_of":null)", R"("stop":[])", R"("n":4)",
        R"("stop_token_ids":[3])", R"("min_tokens":2)", R"("seed":3)"}) {
    INFO(value);
    CHECK(code_of(line + value + "}") == "");
  }
  CHECK(parse(line + R"("top_p":0.5})").error.message ==
        "top_p: found 0.5, expected 1 beside beam_width");
  CHECK(parse(line + R"("n":5})").error.message ==
        "n: found 5, expected at most beam_width, which is 4");
}

TEST_CASE("values that mean the same as an absent key are accepted") {
  for (const char* value : {R"("n":1)",
                            R"("n":null)",
                            R"("best_of":1)",
                            R"("beam_width":1)",
                            R"("length_penalty":1.0)",
                            R"("early_stopping":false)",
                            R"("logprobs":false)",
                            R"("logprobs":null)",
                            R"("prompt_logprobs":null)",
                            R"("top_logprobs":0)",
                            R"("tools":[])",
                            R"("messages":[])",
                            R"("tool_choice":"none")",
                            R"("response_format":{"type":"text"})",
                            R"("echo":false)",
                            R"("suffix":"")",
                            R"("stream":false)",
                            R"("arrival_s":0)",
                            R"("id":null)",
                            R"("logit_bias":{})",
                            R"("stop":[])",
                            R"("prompt_token_ids":[])",
                            R"("prompt_token_ids":null)"}) {
    CAPTURE(value);
    CHECK(code_of(std::string(R"({"prompt":"x",)") + value + "}") == "");
  }
}

TEST_CASE("an empty prompt is left to be judged with the others") {
  CHECK(parse(R"({"prompt":""})").request.prompt == "");
  const auto line = parse(R"({"prompt_token_ids":[]})");
  CHECK_FALSE(line.failed());
  CHECK_FALSE(line.request.prompt);
}

TEST_CASE("a message names key, found and expected, and stays short and valid") {
  CHECK(parse(R"({"prompt":"x","top_p":1.5})").error.message ==
        "top_p: found 1.5, expected a number above 0 and at most 1");
  CHECK(parse(R"({"prompt":"x","max_tokens":"many"})").error.message ==
        "max_tokens: found \"many\", expected an integer from 1 to 2147483647");
  CHECK(parse(R"({"prompt":"x","max_tokens":0})").error.message ==
        "max_tokens: found 0, expected an integer from 1 to 2147483647, or 0 beside "
        "prompt_logprobs or echo");
  CHECK(parse(R"({"prompt":"x","n":65})").error.message ==
        "n: found 65, expected an integer from 1 to 64");
  CHECK(parse(R"({"prompt":"x","beam_width":0})").error.message ==
        "beam_width: found 0, expected an integer from 1 to 64");
  CHECK(parse(R"({"prompt":"x","num_beams":2})").error.message ==
        "num_beams: found 2; this version does not support it, use beam_width");
  CHECK(parse(batch(R"({"prompt":"x","seed":[]})")).error.message ==
        "body.seed: found an empty list, expected an integer of 64 bits");
  std::string huge = "x";
  for (int i = 0; i < 5000; ++i) huge += "\xE2\x82\xAC";  // three bytes each
  for (const auto& text : {R"({"prompt":"x","temperature":")" + huge + "\"}",
                           R"({"prompt":"x","logit_bias":{")" + huge + "\":1}}"}) {
    const auto message = parse(text).error.message;
    CHECK(message.size() < 300);
    CHECK(message.size() > 60);
    CHECK(message.find("\xEF\xBF\xBD") == std::string::npos);
  }
}

TEST_CASE("an error knows the id when the line has one") {
  CHECK(parse(R"({"temperature":-1,"prompt":"x","id":"a"})").request.head.id_json == "\"a\"");
  CHECK(parse(R"({"id":-5})").request.head.id_json == "-5");
  CHECK(parse(R"({"id":18446744073709551615,"prompt":"x"})").request.head.id_json ==
        "18446744073709551615");
  CHECK(parse(R"({"id":1.5,"prompt":"x"})").request.head.id_json == "");
  const auto line = parse(R"({"custom_id":"c","url":"/v1/chat/completions","body":{}})");
  CHECK(line.request.head.id_json == "\"c\"");
  CHECK(line.request.head.form == RecordForm::kOpenAiChat);
}

TEST_CASE("the last of two equal keys counts") {
  const auto line = parse(R"({"prompt":7,"prompt":"x","max_tokens":"y","max_tokens":5,"n":3,"n":1,
                              "top_k":3,"top_k":null})");
  CHECK(line.error.message == "");
  CHECK(line.request.prompt == "x");
  CHECK(line.request.sampling.max_tokens == 5);
  CHECK(line.request.sampling.top_k == 0);
}

TEST_CASE("a line of the OpenAI batch form gives the same request") {
  const auto words = parse(batch(R"({"model":"m","user":"u","prompt":"x","max_tokens":3})"));
  CHECK(words.error.message == "");
  CHECK(words.request.head.form == RecordForm::kOpenAiCompletion);
  CHECK(words.request.head.id_json == "\"c\"");
  CHECK(words.request.prompt == "x");
  CHECK(words.request.sampling.max_tokens == 3);
  CHECK(parse(batch(R"({"prompt":["x"]})")).request.prompt == "x");
  CHECK(parse(batch(R"({"prompt":[5,6]})")).request.prompt_token_ids == std::vector<TokenId>{5, 6});
  CHECK(parse(batch(R"({"prompt":[5]})")).request.prompt_token_ids == std::vector<TokenId>{5});
  CHECK(parse(batch(R"({"prompt":[[5,6]]})")).request.prompt_token_ids ==
        std::vector<TokenId>{5, 6});
  CHECK_FALSE(parse(batch(R"({"prompt":[]})")).failed());
  CHECK(code_of(batch(R"({"prompt":["x",5]})")) == "invalid_value");
  CHECK(code_of(batch(R"({"prompt":[[5],"x"]})")) == "invalid_value");
  CHECK(code_of(batch(R"({"prompt":[[5],[-1]]})")) == "invalid_value");
  CHECK(code_of(batch(R"({"prompt":[5,"y"]})")) == "invalid_value");
  CHECK(code_of(batch(R"({"prompt":[-1]})")) == "invalid_value");
  CHECK(code_of(batch(R"({"prompt":"x","stream":true})")) == "unsupported");
  CHECK(code_of(batch("{}")) == "missing_prompt");
}

TEST_CASE("a line of the OpenAI batch form may have several prompts") {
  const ParsedLine words = parse(batch(R"({"prompt":["x","","z"]})"));
  CHECK(words.request.prompt == "x");
  REQUIRE(words.request.more.size() == 2);
  CHECK(words.request.more[0].text == "");
  CHECK(words.request.more[1].text == "z");
  const ParsedLine ids = parse(batch(R"({"prompt":[[1,2],[3]]})"));
  CHECK(ids.request.prompt_token_ids == std::vector<TokenId>{1, 2});
  REQUIRE(ids.request.more.size() == 1);
  CHECK(ids.request.more[0].token_ids == std::vector<TokenId>{3});
  CHECK(parse(batch(R"({"prompt":["x",5]})")).error.message ==
        "body.prompt[1]: found 5, expected a string");
  const auto many = [](int count) {
    std::string list = R"({"prompt":["x")";
    for (int i = 1; i < count; ++i) list += R"(,"y")";
    return batch(list + "]}");
  };
  CHECK(parse(many(kMaxPrompts)).request.more.size() == size_t{kMaxPrompts} - 1);
  CHECK(parse(many(kMaxPrompts + 1)).error.message ==
        "body.prompt: found a list of 1025 prompts, expected at most 1024");
}

TEST_CASE("a line may ask for its prompt and for nothing else") {
  const auto max_tokens = [](const std::string& settings) {
    const ParsedLine line = parse(R"({"prompt":"x",)" + settings + "}");
    CAPTURE(settings);
    CHECK(line.error.message == "");
    return line.request.sampling.max_tokens;
  };
  CHECK(max_tokens(R"("max_tokens":0,"echo":true)") == 0);
  CHECK(max_tokens(R"("max_completion_tokens":0,"prompt_logprobs":0)") == 0);
  CHECK(max_tokens(R"("max_tokens":3,"echo":true)") == 3);
  CHECK(code_of(R"({"prompt":"x","max_tokens":0,"echo":false})") == "invalid_value");
  CHECK(code_of(R"({"prompt":"x","max_tokens":0,"logprobs":2})") == "invalid_value");
  const ParsedLine line = parse(R"({"prompt":"x","echo":true,"prompt_logprobs":20})");
  CHECK(line.request.echo);
  CHECK(line.request.num_prompt_log_probs == 20);
  CHECK_FALSE(parse(R"({"prompt":"x"})").request.echo);
  CHECK(parse(R"({"prompt":"x","prompt_logprobs":false})").request.num_prompt_log_probs == -1);
}

TEST_CASE("unknown keys counted in parts are those counted in one go") {
  RequestParser whole({}), parts({});
  RequestParser::UnknownKeys sum;
  for (int i = 0; i < 200; ++i) {
    const auto line =
        R"({"prompt":"a","key)" + std::to_string(i % 120) + R"(":1,"again":2,"again":3})";
    parse(whole, line);
    parse(parts, line);
    if (i % 3 == 0) RequestParser::add(sum, parts.take_unknown_keys());
  }
  const RequestParser::UnknownKeys last = parts.take_unknown_keys();
  CHECK(last.size() == 2);
  RequestParser::add(sum, last);
  CHECK(parts.take_unknown_keys().empty());
  CHECK(sum == whole.take_unknown_keys());
  CHECK(sum.size() == 101);
}

TEST_CASE("a prompt may stand under another key, and there only") {
  RequestParser parser({}, {.names = {"question"}});
  const ParsedLine line = parse(parser, R"({"question":"a","prompt":5,"answer":1,"top_k":3})");
  REQUIRE_FALSE(line.failed());
  CHECK(*line.request.prompt == "a");
  CHECK(line.request.sampling.top_k == 3);
  CHECK(parser.take_unknown_keys() == RequestParser::UnknownKeys{{"answer", 1}, {"prompt", 1}});

  CHECK(parse(parser, R"({"prompt":"a"})").error.message ==
        "question: found neither it nor prompt_token_ids nor messages, expected one of them; the "
        "line has prompt");
  CHECK(parse(parser, R"({"x":1,"b c":"a","c":"d","d":1,"e":1,"f":1})")
            .error.message.ends_with("; the line has x, b c, c, d, e, ...; --prompt-field b c?"));
  CHECK(
      parse(parser, R"({"custom_id":"c","url":"/v1/completions","body":{"model":"m","text":"a"}})")
          .error.message.ends_with("expected one of them; the body has model, text"));
  CHECK(parse(parser, R"({"question":["a"]})").error.message ==
        "question: found a list, expected a string");
  CHECK(parse(parser, R"({"question":"a","prompt_token_ids":[1]})").error.message ==
        "question, prompt_token_ids and messages: found more than one of them, expected one");
  CHECK(parse(parser, R"({"prompt_token_ids":[1]})").request.prompt_token_ids.size() == 1);
  CHECK(*parse(parser, batch(R"({"prompt":"b"})")).request.prompt == "b");
  CHECK(parse(parser, batch(R"({"question":"b"})")).error.code == "missing_prompt");

  RequestParser other({}, {.names = {"functions"}});  // a key that has no meaning of ours
  CHECK(*parse(other, R"({"functions":"t"})").request.prompt == "t");
}

TEST_CASE("an id may stand under another key, and there only") {
  RequestParser parser({}, {.names = {.id = "task_id"}});
  const ParsedLine line = parse(parser, R"({"prompt":"a","task_id":"HumanEval/0","id":[5]})");
  REQUIRE_FALSE(line.failed());
  CHECK(line.request.head.id_json == "\"HumanEval/0\"");
  CHECK(parser.take_unknown_keys() == RequestParser::UnknownKeys{{"id", 1}});
  CHECK(parse(parser, R"({"prompt":"a","task_id":18446744073709551615})").request.head.id_json ==
        "18446744073709551615");
  CHECK(parse(parser, R"({"prompt":"a","id":5})").request.head.id_json.empty());
  CHECK(parse(parser, R"({"prompt":"a","task_id":1.5})").error.message ==
        "task_id: found 1.5, expected a string or an integer");
  const ParsedLine near = parse(parser, R"({"prompt":"a","task-id":1})");
  REQUIRE(near.hints.size() == 1);
  CHECK(near.hints[0].similar == "task_id");
  CHECK(parse(parser, batch(R"({"prompt":"b"})")).request.head.id_json ==
        parse(*std::make_unique<RequestParser>(SamplingParams()), batch(R"({"prompt":"b"})"))
            .request.head.id_json);
}

TEST_CASE("a prompt or an id does not stand under a key that says something else") {
  for (const char* name : {"prompt", "question", "user", "suffix", "\xC3\xA9"}) {
    CHECK_MESSAGE(may_stand_for("prompt", name), name);
  }
  for (const char* name : {"", "id", "max_tokens", "prompt_token_ids", "body", "custom_id"}) {
    CHECK_FALSE_MESSAGE(may_stand_for("prompt", name), name);
    CHECK(may_stand_for("id", name) == (name == std::string_view("id")));
  }
}

TEST_CASE("unknown keys are counted, in bounded memory") {
  RequestParser parser({});
  CHECK_FALSE(parse(parser, R"({"prompt":"x","answer":[{"n":2}],"model":"m"})").failed());
  CHECK_FALSE(parse(parser, R"({"prompt":"x","answer":1})").failed());
  CHECK_FALSE(parse(parser, batch(R"({"prompt":"x","other":1,"url":2,"model":"m"})")).failed());
  CHECK(parser.take_unknown_keys() ==
        RequestParser::UnknownKeys{{"answer", 2}, {"model", 1}, {"other", 1}, {"url", 1}});
  for (int i = 0; i < 1000; ++i) {
    const auto key = std::to_string(i) + std::string(1000, 'x');
    CHECK_FALSE(parse(parser, "{\"prompt\":\"x\",\"" + key + "\":0}").failed());
  }
  const RequestParser::UnknownKeys keys = parser.take_unknown_keys();
  CHECK(keys.size() <= 101);
  for (const auto& [name, count] : keys) CHECK(name.size() < 100);
}

TEST_CASE("a line beyond the limit is an error of its own") {
  const std::string huge(static_cast<size_t>(kMaxLineBytes) + 1, ' ');
  RequestParser parser({});
  CHECK(parser.parse(huge, 0, 1).error.code == "line_too_long");
}
