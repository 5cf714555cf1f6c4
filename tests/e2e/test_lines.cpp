// What a line says and what its record answers.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// A line with these fields beside its prompt.
std::string line(const std::string& fields, const std::string& prompt = "Once upon a time") {
  return R"({"prompt": ")" + prompt + "\", " + fields + "}\n";
}

// The record of a line that completes.
Json completed(const std::string& text, const Words& flags = {}) {
  Answers found = answer(text, flags + Words{"--token-ids"});
  CAPTURE(found.out);
  CAPTURE(found.err);
  CHECK(found.exit_code == 0);
  REQUIRE(found.records.size() == 1);
  return std::move(found.records[0]);
}

}  // namespace

TEST_CASE("both forms of record may stand in one file") {
  const std::string fields = R"("prompt": "Nora has", "max_tokens": 4, "ignore_eos": true)";
  const Answers found = answer(
      "{\"id\": \"plain\", " + fields +
          "}\n"
          R"({"custom_id": "batch", "method": "POST", "url": "/v1/completions", "body": {)" +
          R"("model": "whatever", )" + fields +
          "}}\n"
          R"({"custom_id": "fails", "method": "POST", "url": "/v1/completions", "body": {}})"
          "\n"
          R"({"custom_id": "chat", "method": "POST", "url": "/v1/chat/completions", "body": {}})"
          "\n",
      {"--token-ids"});
  CHECK(found.exit_code == 2);
  REQUIRE(found.records.size() == 4);
  const Json& plain = found.records[0];
  const Json& batch = found.records[1];
  CHECK(plain["/id"] == R"("plain")");
  CHECK(batch["/custom_id"] == R"("batch")");
  CHECK(batch["/error"] == "null");
  CHECK(batch.integer("/response/status_code") == 200);
  CHECK(batch.text("/response/body/object") == "text_completion");
  CHECK(batch.text("/response/body/model") == "story-llama");
  const std::string choice = "/response/body/choices/0";
  CHECK(batch[choice + "/text"] == plain["/text"]);
  CHECK(batch["/token_ids"] == plain["/token_ids"]);
  CHECK(batch[choice + "/finish_reason"] == R"("length")");
  CHECK(batch[choice + "/index"] == "0");
  CHECK(batch["/response/body/usage/prompt_tokens"] == plain["/prompt_tokens"]);
  CHECK(batch["/response/body/usage/completion_tokens"] == "4");
  CHECK(batch.integer("/response/body/usage/total_tokens") == plain.integer("/prompt_tokens") + 4);

  const Json& fails = found.records[2];
  CHECK(fails["/custom_id"] == R"("fails")");
  CHECK(fails["/response"] == "null");
  CHECK(fails["/line"] == "3");
  CHECK(fails.text("/error/code") == "missing_prompt");
  CHECK(found.records[3].text("/error/code") == "missing_prompt");
}

TEST_CASE("an id may be any string or integer, and may repeat") {
  const Answers found =
      answer(line(R"("id": "x", "max_tokens": 1)") + line(R"("id": "x", "max_tokens": 1)") +
             line(R"("id": -9007199254740993, "max_tokens": 1)") +
             line(R"("id": 18446744073709551615, "max_tokens": 1)") +
             line(R"("id": "\u00e9\"\n\u0000", "max_tokens": 1)") +
             line(R"("id": null, "max_tokens": 1)") + line(R"("id": "", "max_tokens": 1)") +
             line(R"("id": 1.5, "max_tokens": 1)"));
  REQUIRE(found.records.size() == 8);
  CHECK(found.records[0]["/id"] == R"("x")");
  CHECK(found.records[1]["/id"] == R"("x")");
  CHECK(found.records[2]["/id"] == "-9007199254740993");
  CHECK(found.records[3]["/id"] == "18446744073709551615");
  CHECK(found.records[4].text("/id") == std::string("\u00e9\"\n\0", 5));
  CHECK(found.records[5]["/id"] == "null");
  CHECK(found.records[6]["/id"] == R"("")");
  CHECK(found.records[7].text("/error/code") == "invalid_value");
}

TEST_CASE("line ends, a byte-order mark and blank lines do not matter") {
  const std::string first = R"({"id": 1, "prompt": "Nora", "max_tokens": 3})";
  const std::string second = R"({"id": 2, "prompt": "Theo", "max_tokens": 3})";
  const std::string bad = R"({"id": 3})";
  const Answers plain = answer(first + "\n" + second + "\n" + bad + "\n");
  CHECK(plain.exit_code == 2);
  REQUIRE(plain.records.size() == 3);
  CHECK(plain.records[2].integer("/line") == 3);

  const Answers other =
      answer("\xEF\xBB\xBF" + first + "\r\n\n \t \r\n" + second + "\r\n\r\n\n" + bad);
  REQUIRE(other.records.size() == 3);
  CHECK(other.records[0].line() == plain.records[0].line());
  CHECK(other.records[1].line() == plain.records[1].line());
  CHECK(other.records[2].integer("/index") == 2);
  CHECK(other.records[2].integer("/line") == 7);
}

TEST_CASE("unknown keys are ignored and counted once") {
  const Answers found =
      answer(line(R"("max_tokens": 1, "answer": "x", "colour": 3)") +
             line(R"("max_tokens": 1, "answer": [[]])") + line(R"("max_tokens": 1)"));
  CHECK(found.exit_code == 0);
  REQUIRE(found.records.size() == 3);
  CHECK(found.records[0]["/text"] == found.records[2]["/text"]);
  CHECK(found.err.find("\"answer\" (2)") != std::string::npos);
  CHECK(found.err.find("\"colour\" (1)") != std::string::npos);
  CHECK(found.err.find("answer") == found.err.rfind("answer"));
}

TEST_CASE("token ids are a prompt as good as words") {
  // Beginning of sequence is part of a prompt in words, so it's part of the ids here.
  const Json ids = completed(R"({"prompt_token_ids": [1], "max_tokens": 3, "ignore_eos": true})"
                             "\n");
  CHECK(ids.integer("/prompt_tokens") == 1);
  CHECK(ids.integers("/token_ids").size() == 3);
  const Json listed =
      completed(R"({"custom_id": "x", "url": "/v1/completions", "body": {"prompt": [1],)"
                R"( "max_tokens": 3, "ignore_eos": true}})"
                "\n");
  CHECK(listed["/token_ids"] == ids["/token_ids"]);
}

TEST_CASE("a stop string ends the text wherever it lies in the tokens") {
  const auto text_of = [](int num_tokens, const std::string& more) {
    return completed(
        line(R"("ignore_eos": true, "max_tokens": )" + std::to_string(num_tokens) + more));
  };
  // The end of one token and the beginning of the next, cut out of what comes without it.
  const std::string whole = text_of(24, "").text("/text");
  const size_t border = text_of(12, "").text("/text").size();
  REQUIRE(border >= 2);
  REQUIRE(border + 2 <= whole.size());
  const auto quoted = [](const std::string& text) {
    std::string json = "\"";
    for (const char c : text) json += c == '\n' ? "\\n" : c == '"' ? "\\\"" : std::string(1, c);
    return json + "\"";
  };
  const std::string stop = whole.substr(border - 2, 4);
  CAPTURE(stop);
  for (const std::string& asked : {quoted(stop), "[\"@@@\", " + quoted(stop) + "]"}) {
    const Json found = text_of(24, R"(, "stop": )" + asked);
    CHECK(found.text("/text") == whole.substr(0, whole.find(stop)));
    CHECK(found.text("/finish_reason") == "stop");
    CHECK(found.integer("/completion_tokens") <= 24);
  }
  const Json by_flag = completed(line(R"("ignore_eos": true, "max_tokens": 24)"), {"--stop", stop});
  CHECK(by_flag.text("/text") == whole.substr(0, whole.find(stop)));
  const Json late = text_of(24, R"(, "min_tokens": 24, "stop": )" + quoted(stop));
  CHECK(late.integer("/completion_tokens") == 24);
}

TEST_CASE("a logit bias forces a token and bans another") {
  const Json forced =
      completed(line(R"("max_tokens": 5, "temperature": 1, "logit_bias": {"300": 100})"));
  CHECK(forced["/token_ids"] == "[300,300,300,300,300]");
  const std::string greedy = R"("max_tokens": 1, "ignore_eos": true)";
  const std::string likeliest = std::to_string(completed(line(greedy)).integers("/token_ids")[0]);
  const Json banned = completed(line(greedy + R"(, "logit_bias": {")" + likeliest + R"(": -100})"));
  CHECK(banned["/token_ids"] != "[" + likeliest + "]");
}

TEST_CASE("end of sequence ends a completion unless the line says otherwise") {
  const std::string eos = R"("logit_bias": {"2": 100}, "max_tokens": 6)";
  const Json ends = completed(line(eos));
  CHECK(ends.text("/finish_reason") == "stop");
  CHECK(ends["/token_ids"] == "[2]");
  CHECK(ends.text("/text") == "");

  const Json later = completed(line(eos + R"(, "min_tokens": 3)"));
  CHECK(later.text("/finish_reason") == "stop");
  CHECK(later.integer("/completion_tokens") == 4);

  const Json on = completed(line(eos + R"(, "ignore_eos": true)"));
  CHECK(on.text("/finish_reason") == "length");
  CHECK(on["/token_ids"] == "[2,2,2,2,2,2]");
  CHECK(completed(line(eos), {"--ignore-eos"})["/token_ids"] == on["/token_ids"]);

  const Json other =
      completed(line(R"("logit_bias": {"300": 100}, "stop_token_ids": [7, 300], "max_tokens": 6)"));
  CHECK(other.text("/finish_reason") == "stop");
  CHECK(other["/token_ids"] == "[300]");
}

TEST_CASE("a draw depends on seed, id and prompt, not on the place of the line") {
  const std::string drawn = R"("temperature": 2, "max_tokens": 12, "ignore_eos": true)";
  const std::string line_a = line(drawn + R"(, "seed": 5, "id": "a")");
  const std::string line_b = line(drawn + R"(, "seed": 5, "id": "b")");
  const std::string line_c = line(drawn + R"(, "seed": 6, "id": "a")");
  const std::string fill = line(R"("max_tokens": 3)", "The cat");

  const Answers first = answer(line_a + line_b + line_c);
  const Answers second = answer(fill + line_c + "\n" + fill + "{\n" + line_b + fill + line_a,
                                {"--max-batch-size", "2", "--prefill-chunk-size", "2"});
  REQUIRE(first.records.size() == 3);
  REQUIRE(second.records.size() == 7);
  const auto text = [](const Json& record) { return record.text("/text"); };
  CHECK(text(first.records[0]) == text(second.records[6]));
  CHECK(text(first.records[1]) == text(second.records[4]));
  CHECK(text(first.records[2]) == text(second.records[1]));
  CHECK(text(first.records[0]) != text(first.records[1]));
  CHECK(text(first.records[0]) != text(first.records[2]));
  // The flag is the seed of lines that have none.
  const std::string unseeded = line(drawn + R"(, "id": "a")");
  CHECK(completed(unseeded, {"--seed", "6"}).text("/text") == text(first.records[2]));
  CHECK(completed(unseeded).text("/text") ==
        completed(line(drawn + R"(, "seed": 0, "id": "a")")).text("/text"));
}

TEST_CASE("a line says more than a flag, and a flag more than the default") {
  const std::string lines =
      line(R"("ignore_eos": true)") + line(R"("ignore_eos": true, "max_tokens": 2)");
  const Answers found = answer(lines, {"--max-tokens", "3"});
  REQUIRE(found.records.size() == 2);
  CHECK(found.records[0].integer("/completion_tokens") == 3);
  CHECK(found.records[1].integer("/completion_tokens") == 2);
}

TEST_CASE("a completion is cut off at max-model-len") {
  const Json whole = completed(line(R"("ignore_eos": true, "max_tokens": 20)"));
  const int64_t prompt = whole.integer("/prompt_tokens");
  const std::string length = std::to_string(prompt + 4);
  const Json cut =
      completed(line(R"("ignore_eos": true, "max_tokens": 20)"), {"--max-model-len", length});
  CHECK(cut.text("/finish_reason") == "length");
  CHECK(cut.integer("/completion_tokens") == 4);
  const std::string text = cut.text("/text");
  CHECK(whole.text("/text").substr(0, text.size()) == text);

  const Answers one =
      answer(line(R"("max_tokens": 20)"), {"--max-model-len", std::to_string(prompt + 1)});
  CHECK(one.exit_code == 0);
  const Answers none =
      answer(line(R"("max_tokens": 20)"), {"--max-model-len", std::to_string(prompt)});
  CHECK(none.exit_code == 2);
  REQUIRE(none.records.size() == 1);
  CHECK(none.records[0].text("/error/code") == "prompt_too_long");
}

TEST_CASE("every text is UTF-8, whatever the tokens are") {
  // Bytes as tokens of their own, drawn at random: whole characters and pieces of them.
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += line(
        R"("temperature": 10000, "max_tokens": 8, "ignore_eos": true, "id": )" + std::to_string(i),
        "\u00e9\u4f60\U0001F600 \\u0000 e\\u0301");
  }
  const Answers found = answer(lines);
  CHECK(found.exit_code == 0);
  CHECK(found.records.size() == 40);
  CHECK(simdjson::validate_utf8(found.out));
}

}  // namespace pagedinfer
