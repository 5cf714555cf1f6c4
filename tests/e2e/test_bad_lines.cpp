// Lines that cannot be completed: each has its record, and other lines are not affected.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

struct BadLine {
  const char* what;
  std::string line;
  const char* code;
};

// What the lines below are too long for. A sequence of that length has no place in the cache.
const Words kSmall = {"--max-model-len", "90", "--num-blocks", "4", "--block-size", "16"};

std::string with_prompt(const std::string& fields) {
  return R"({"prompt": "Nora", )" + fields + "}";
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::vector<BadLine> bad_lines() {
  const std::string nul(1, '\0');
  return {
      {"cut off", R"({"prompt": "Nora)", "invalid_json"},
      {"no value", R"({"prompt": })", "invalid_json"},
      {"two objects", R"({"prompt": "a"} {"prompt": "b"})", "invalid_json"},
      {"words", "Nora has a ball", "invalid_json"},
      {"one brace", "{", "invalid_json"},
      {"only a NUL", nul, "invalid_json"},
      {"a NUL between", "{\"prompt\": " + nul + "\"Nora\"}", "invalid_json"},
      {"a NUL in a string", "{\"prompt\": \"No" + nul + "ra\"}", "invalid_json"},
      {"a NUL at the end", "{\"prompt\": \"Nora\"}" + nul, "invalid_json"},
      {"a tab in a string", "{\"prompt\": \"No\tra\"}", "invalid_json"},
      {"a lone high surrogate", R"({"prompt": "\ud83d"})", "invalid_json"},
      {"a lone low surrogate", R"({"prompt": "\ude00 Nora"})", "invalid_json"},
      {"surrogates the wrong way", R"({"prompt": "\ude00\ud83d"})", "invalid_json"},
      {"deep lists", repeated("[", 100000), "invalid_json"},
      {"deep objects", repeated(R"({"a":)", 50000), "invalid_json"},
      {"deep but whole", with_prompt("\"stop\": " + repeated("[", 2000) + repeated("]", 2000)),
       "invalid_json"},
      {"a number too large", with_prompt(R"("max_tokens": 1e999)"), "invalid_json"},
      {"a number of many digits", with_prompt("\"seed\": 1" + repeated("0", 5000)), "invalid_json"},
      {"bytes that are no text", "{\"prompt\": \"\xFF\xFE\"}", "invalid_utf8"},
      {"half a character", "{\"prompt\": \"\xE2\x82\"}", "invalid_utf8"},
      {"a surrogate in UTF-8", "{\"prompt\": \"\xED\xA0\x80\"}", "invalid_utf8"},
      {"an overlong form", "{\"prompt\": \"\xC0\xAF\"}", "invalid_utf8"},
      {"a list", R"(["prompt", "Nora"])", "not_an_object"},
      {"a string", R"("Nora")", "not_an_object"},
      {"a number", "7", "not_an_object"},
      {"null", "null", "not_an_object"},
      {"nothing asked", "{}", "missing_prompt"},
      {"a null prompt", R"({"prompt": null})", "missing_prompt"},
      {"two prompts", R"({"prompt": "Nora", "prompt_token_ids": [5]})", "ambiguous_prompt"},
      {"an empty prompt", R"({"prompt": ""})", "empty_prompt"},
      {"no token ids", R"({"prompt_token_ids": []})", "empty_prompt"},
      {"a prompt too long", R"({"prompt": ")" + repeated("Nora has a ball. ", 60) + "\"}",
       "prompt_too_long"},
      {"as long as the model", "{\"prompt_token_ids\": [5" + repeated(",5", 89) + "]}",
       "prompt_too_long"},
      {"an unknown token id", R"({"prompt_token_ids": [5, 1000000]})", "unknown_token_id"},
      {"one id too many", R"({"prompt_token_ids": [1024]})", "unknown_token_id"},
      {"an unknown stop id", with_prompt(R"("stop_token_ids": [70000])"), "unknown_token_id"},
      {"an unknown bias", with_prompt(R"("logit_bias": {"70000": 1})"), "unknown_token_id"},
      {"a negative id", R"({"prompt_token_ids": [5, -1]})", "invalid_value"},
      {"words for ids", R"({"prompt_token_ids": ["Nora"]})", "invalid_value"},
      {"a number as a prompt", R"({"prompt": 5})", "invalid_value"},
      {"a list as a prompt", R"({"prompt": ["Nora"]})", "invalid_value"},
      {"a list as an id", with_prompt(R"("id": [1])"), "invalid_value"},
      {"no tokens", with_prompt(R"("max_tokens": 0)"), "invalid_value"},
      {"fewer than none", with_prompt(R"("max_tokens": -5)"), "invalid_value"},
      {"half a token", with_prompt(R"("max_tokens": 1.5)"), "invalid_value"},
      {"tokens in words", with_prompt(R"("max_tokens": "5")"), "invalid_value"},
      {"too many for a number", with_prompt(R"("max_tokens": 9223372036854775807)"),
       "invalid_value"},
      {"more than any number", with_prompt(R"("max_tokens": 18446744073709551615)"),
       "invalid_value"},
      {"at least more than at most", with_prompt(R"("min_tokens": 9, "max_tokens": 8)"),
       "invalid_value"},
      {"a cold temperature", with_prompt(R"("temperature": -0.1)"), "invalid_value"},
      {"temperature in words", with_prompt(R"("temperature": "warm")"), "invalid_value"},
      {"top_p of 0", with_prompt(R"("top_p": 0)"), "invalid_value"},
      {"top_p above 1", with_prompt(R"("top_p": 1.01)"), "invalid_value"},
      {"min_p above 1", with_prompt(R"("min_p": 2)"), "invalid_value"},
      {"top_k below none", with_prompt(R"("top_k": -2)"), "invalid_value"},
      {"no penalty at all", with_prompt(R"("repetition_penalty": 0)"), "invalid_value"},
      {"presence too strong", with_prompt(R"("presence_penalty": 2.5)"), "invalid_value"},
      {"frequency in a list", with_prompt(R"("frequency_penalty": [1])"), "invalid_value"},
      {"a seed in words", with_prompt(R"("seed": "seven")"), "invalid_value"},
      {"a seed between", with_prompt(R"("seed": 1.5)"), "invalid_value"},
      {"an empty stop", with_prompt(R"("stop": "")"), "invalid_value"},
      {"a stop that is none", with_prompt(R"("stop": ["a", 5])"), "invalid_value"},
      {"ignore_eos in words", with_prompt(R"("ignore_eos": "yes")"), "invalid_value"},
      {"a bias of words", with_prompt(R"("logit_bias": {"the": 1})"), "invalid_value"},
      {"a bias too strong", with_prompt(R"("logit_bias": {"5": 101})"), "invalid_value"},
      {"a bias list", with_prompt(R"("logit_bias": [[5, 1]])"), "invalid_value"},
      {"an unknown url", R"({"custom_id": "x", "url": "/v1/embeddings", "body": {"prompt": "a"}})",
       "invalid_value"},
      {"a body that is none", R"({"custom_id": "x", "url": "/v1/completions", "body": "Nora"})",
       "invalid_value"},
      {"chat", R"({"custom_id": "x", "url": "/v1/chat/completions", "body": {"messages": []}})",
       "no_chat_template"},
      {"an empty prompt among others",
       R"({"custom_id": "c", "url": "/v1/completions", "body": {"prompt": ["a", ""]}})",
       "empty_prompt"},
      {"more than the cache", with_prompt(R"("max_tokens": 2000000000)"), "exceeds_cache"},
  };
}

std::string good_line(int number) {
  return with_prompt(R"("max_tokens": 4, "temperature": 1, "id": )" + std::to_string(number));
}

std::string without_index(const std::string& record) {
  return std::regex_replace(record, std::regex(R"re("index":\d+,)re"), "");
}

}  // namespace

TEST_CASE("every line has one record, and a bad one changes no other") {
  const std::vector<BadLine> bad = bad_lines();
  std::string alone, among;
  for (size_t i = 0; i < bad.size(); ++i) {
    const std::string good = good_line(static_cast<int>(i)) + "\n";
    alone += good;
    among += bad[i].line + "\n" + good;
  }
  const Answers expected = answer(alone, kSmall);
  const Answers found = answer(among, kSmall);
  CHECK(expected.exit_code == 0);
  CHECK(found.exit_code == 2);
  REQUIRE(expected.records.size() == bad.size());
  REQUIRE(found.records.size() == 2 * bad.size());

  for (size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(bad[i].what);
    const Json& error = found.records[2 * i];
    const Json& good = found.records[2 * i + 1];
    CHECK(error.text("/error/code") == bad[i].code);
    CHECK(error.text("/error/message").size() > 10);
    CHECK(error.integer("/line") == static_cast<int64_t>(2 * i + 1));
    CHECK(error.integer("/index") == static_cast<int64_t>(2 * i));
    CHECK(!error.has("/text"));
    CHECK(good.integer("/index") == static_cast<int64_t>(2 * i + 1));
    CHECK(without_index(good.line()) == without_index(expected.records[i].line()));
  }
  const std::string count = std::to_string(bad.size());
  CHECK(found.err.find(count + " completed, " + count + " failed") != std::string::npos);
}

TEST_CASE("an input of bad lines only is a complete run") {
  std::string lines;
  for (const BadLine& bad : bad_lines()) lines += bad.line + "\n";
  const Words one_reservation = {"--batching", "static",       "--max-model-len",
                                 "90",         "--num-blocks", "6"};
  for (const Words& flags : {kSmall, one_reservation}) {
    const Answers found = answer(lines, flags);
    CHECK(found.exit_code == 2);
    CHECK(found.records.size() == bad_lines().size());
  }
}

TEST_CASE("a flag takes error records out of the exit code and changes nothing else") {
  const std::string lines = "no JSON\n{\"prompt\": \"One\", \"max_tokens\": 2}\n";
  const Answers usual = answer(lines, kSmall);
  const Answers found = answer(lines, kSmall + Words{"--exit-zero-on-error-records"});
  CHECK(usual.exit_code == 2);
  CHECK(found.exit_code == 0);
  CHECK(found.out == usual.out);
  CHECK(found.err.ends_with(last_line(1, 1)));
  CHECK(run({"--input", "/no/such/file", "--exit-zero-on-error-records"}).exit_code == 1);
}

TEST_CASE("an unsupported key is refused only if its value asks for something") {
  struct Key {
    const char* name;
    std::vector<std::string> asks, asks_for_nothing;
  };
  const std::vector<Key> keys = {
      {"num_return_sequences", {"2", "0"}, {"1", "1.0", "null"}},
      {"num_beams", {"4"}, {"1", "null"}},
      {"n_probs", {"5", "true"}, {"0", "null"}},
      {"tools", {R"([{"function": {"name": "f"}}])", R"([{"type": "custom"}])"}, {"[]", "null"}},
      {"tool_choice", {}, {"\"auto\"", "\"none\"", "null"}},
      {"response_format",
       {R"({"type": "structural_tag"})", R"({"type": "text", "x": 1})"},
       {R"({"type": "text"})", "null", "{}"}},
      {"stream", {"true"}, {"false"}},
      {"suffix", {"\"end\""}, {"\"\"", "null"}},
  };
  std::string asking, not_asking;
  int num_asking = 0, num_not_asking = 0;
  for (const Key& key : keys) {
    const auto line = [&](const std::string& value) {
      return with_prompt("\"max_tokens\": 2, \"" + std::string(key.name) + "\": " + value) + "\n";
    };
    for (const std::string& value : key.asks) asking += line(value), ++num_asking;
    for (const std::string& value : key.asks_for_nothing) {
      not_asking += line(value);
      ++num_not_asking;
    }
  }
  const Answers refused = answer(asking);
  CHECK(static_cast<int>(refused.records.size()) == num_asking);
  for (const Json& record : refused.records) {
    CHECK_MESSAGE(record["/error/code"] == R"("unsupported")", record.line());
  }
  CHECK(refused.exit_code == 2);

  const Answers plain = answer(with_prompt(R"("max_tokens": 2)") + "\n");
  const Answers accepted = answer(not_asking);
  CHECK(static_cast<int>(accepted.records.size()) == num_not_asking);
  for (const Json& record : accepted.records) {
    CHECK(record["/text"] == plain.records.at(0)["/text"]);
  }
  CHECK(accepted.exit_code == 0);
}

TEST_CASE("a NUL that JSON allows is part of the prompt") {
  const Answers found = answer(R"({"prompt": "No\u0000ra", "max_tokens": 2})"
                               "\n");
  CHECK(found.exit_code == 0);
}

TEST_CASE("a request that fits the cache exactly runs, one longer never does") {
  // 4 blocks of 8: 33 tokens, the last of which is never computed.
  const auto lines = [](int max_tokens) {
    return "{\"prompt_token_ids\": [5,6,7], \"ignore_eos\": true, \"max_tokens\": " +
           std::to_string(max_tokens) + "}\n";
  };
  const Words flags = {"--num-blocks", "4", "--block-size", "8"};
  const Answers fits = answer(lines(30), flags);
  CHECK(fits.exit_code == 0);
  CHECK(fits.records.at(0).integer("/completion_tokens") == 30);
  const Answers never = answer(lines(31) + lines(3), flags);
  CHECK(never.exit_code == 2);
  REQUIRE(never.records.size() == 2);
  CHECK(never.records[0].text("/error/code") == "exceeds_cache");
  CHECK(never.records[1].integer("/completion_tokens") == 3);
}

TEST_CASE("a file whose first 100 lines have no prompt is refused before a file is made") {
  const TempDir dir;
  const auto lines = [](int bad, const std::string& more = "") {
    std::string text = "\n";
    for (int i = 0; i < bad; ++i) {
      text += R"({"task_id": 7, "question": "Who?", "answer": "Nora"})"
              "\n";
    }
    return text + more;
  };
  const std::string good = R"({"prompt": "Nora", "max_tokens": 1})"
                           "\n";
  const auto ask = [&](const std::string& text, const Words& more = {}) {
    write_file(dir / "in.jsonl", text);
    return run(Words{"--input", dir / "in.jsonl", "--quiet", "--max-tokens", "1"} + more);
  };
  const Ended refused = ask(lines(100, good));
  CHECK(refused.exit_code == 1);
  CHECK(
      refused.err ==
      "pagedinfer: " +
          dir /
              "in.jsonl: none of the first 100 lines can be "
              "answered; line 2: missing_prompt: prompt: found neither it nor prompt_token_ids nor "
              "messages, expected one of them; the line has task_id, question, answer; "
              "--prompt-field "
              "question?\n");
  CHECK(ask(lines(100, good), {"--limit", "3"}).err == refused.err);
  CHECK(ask(lines(100, good), {"--resume"}).err == refused.err);  // there is nothing to resume
  CHECK(std::distance(std::filesystem::directory_iterator(std::string(dir / "")), {}) == 1);
  CHECK(ask(lines(100), {"--prompt-field", "question"}).exit_code == 0);

  const Words again = {"--overwrite"};
  CHECK(ask(lines(99, good), again).exit_code == 2);
  CHECK(ask(lines(99), again).exit_code == 2);  // fewer lines: the records tell enough
  CHECK(ask(lines(99, "{\n"), again).exit_code == 2);
  CHECK(ask(lines(100), {"--overwrite", "--shard", "0/2"}).exit_code == 2);
  CHECK(ask(lines(100), {"--resume"}).exit_code == 1);  // of other lines
  const Ended piped = run({"--input", "-", "--quiet"}, lines(100));
  CHECK(piped.exit_code == 2);
  CHECK(std::ranges::count(piped.out, '\n') == 100);
}

TEST_CASE("the first error of each code is printed, also by a quiet run") {
  const Answers found =
      answer("{}\n[]\n{\"a\":1}\n3\n{\"prompt\":\"Nora\"}\n", {"--quiet", "--max-tokens", "1"});
  CHECK(found.err ==
        "line 1: missing_prompt: prompt: found neither it nor prompt_token_ids nor messages, "
        "expected one of them\nline 2: not_an_object: found an empty list, expected an object\n" +
            last_line(1, 4));
}

TEST_CASE("--errors copies the error records of the whole output, in the form of OpenAI") {
  const TempDir dir;
  write_file(dir / "in.jsonl",
             R"({"prompt": "Nora", "id": "a"}
{"id": "b\u00e9"}
[]
{"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": {"prompt": "x"}}
{"prompt": "Nora", "id": 7}
)");
  const Words flags = {"--input",  dir / "in.jsonl",  "--quiet",  "--max-tokens",      "1",
                       "--output", dir / "out.jsonl", "--errors", dir / "errors.jsonl"};
  write_file(dir / "errors.jsonl.writing-123456789-0", "{}\n");  // of a run that was killed
  CHECK(run(flags + Words{"--limit", "2"}).exit_code == 2);
  CHECK(json_file(dir / "errors.jsonl").size() == 1);
  CHECK(!std::filesystem::exists(dir / "errors.jsonl.writing-123456789-0"));
  CHECK(run(flags + Words{"--resume"}).exit_code == 2);  // also of records that were there
  const std::vector<Json> errors = json_file(dir / "errors.jsonl");
  const std::vector<Json> records = json_file(dir / "out.jsonl");
  CHECK(records.size() == 5);
  REQUIRE(errors.size() == 3);
  for (const Json& error : errors) {
    const Json& record = records[static_cast<size_t>(error.integer("/index"))];
    CHECK(error["/error"] == record["/error"]);
    CHECK(error["/line"] == record["/line"]);
    CHECK(error["/response"] == "null");
    CHECK(error.text("/id") == "batch_req_" + std::to_string(error.integer("/index")));
  }
  CHECK(errors[0].text("/custom_id") == "b\u00e9");
  CHECK(errors[1]["/custom_id"] == "null");
  CHECK(errors[2].text("/custom_id") == "c");

  write_file(dir / "in.jsonl", R"({"prompt": "Nora"})"
                               "\n");
  CHECK(run(flags + Words{"--overwrite"}).exit_code == 0);
  CHECK(read_file(dir / "errors.jsonl").empty());
  for (const Words& wrong : {Words{"--output", "-", "--errors", dir / "e"},
                             Words{"--output", dir / "o", "--errors", "-"},
                             Words{"--output", dir / "o", "--errors", dir / "o"}}) {
    const Ended refused = run(Words{"--input", dir / "in.jsonl"} + wrong);
    CHECK(refused.exit_code == 1);
    CHECK(refused.err.find("--errors") != std::string::npos);
  }
  for (const std::string& impossible : {dir / "no/errors.jsonl", dir / ""}) {  // before it computes
    const Words words = {"--input",    dir / "in.jsonl", "--output",
                         dir / "none", "--errors",       impossible};
    CHECK(run(words).exit_code == 1);
    CHECK_FALSE(std::filesystem::exists(dir / "none"));
  }
}

}  // namespace pagedinfer
