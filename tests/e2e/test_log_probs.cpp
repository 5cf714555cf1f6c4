// Log probabilities from line to record.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/e2e.h"
#include "tests/support/paths.h"

namespace pagedinfer {
namespace {

Json completed_with_log_probs(const std::string& line, const Words& flags = {}) {
  Answers found = answer(line + "\n", flags);
  CAPTURE(found.out);
  CHECK(found.exit_code == 0);
  REQUIRE(found.records.size() == 1);
  return std::move(found.records[0]);
}

std::vector<double> numbers(const Json& record, const std::string& list) {
  std::vector<double> result;
  for (std::string place; place = fmt::format("{}/{}", list, result.size()), record.has(place);) {
    result.push_back(record.number(place));
  }
  return result;
}

}  // namespace

TEST_CASE("log probabilities of a completion are there token by token") {
  const Json record = completed_with_log_probs(
      R"({"prompt":"Nora has a","max_tokens":9,"logprobs":3,"ignore_eos":true})", {"--token-ids"});
  const std::vector<double> chosen = numbers(record, "/logprobs/token_logprobs");
  REQUIRE(chosen.size() == 9);
  std::string text;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string token = record.text(fmt::format("/logprobs/tokens/{}", i));
    CHECK(record.integer(fmt::format("/logprobs/text_offset/{}", i)) == std::ssize(text));
    text += token;
    const std::string top = fmt::format("/logprobs/top_logprobs/{}", i);
    CHECK(record.number(top + "/" + token) == chosen[i]);  // greedy: it is the first of three
    CHECK(chosen[i] < 0);
    CHECK(std::ranges::count(record[top], ':') == 3);
  }
  CHECK(text == record.text("/text"));
}

TEST_CASE("log probabilities are those of the model, whatever changes the draws") {
  const std::string ask = R"({"prompt":"Nora has a","max_tokens":1,"allowed_token_ids":[300])";
  const Json plain = completed_with_log_probs(ask + R"(,"logprobs":5})");
  const std::string expected = plain["/logprobs"];
  for (const char* more : {R"("temperature":1.7,"top_k":3)", R"("logit_bias":{"300":9})",
                           R"("repetition_penalty":1.5,"presence_penalty":1)"}) {
    CHECK(completed_with_log_probs(ask + R"(,"logprobs":5,)" + more + "}")["/logprobs"] ==
          expected);
  }
  CHECK(std::ranges::count(plain["/logprobs/top_logprobs/0"], ':') >= 5);
}

TEST_CASE("the three forms of a record tell the same log probabilities") {
  const std::string settings = R"("max_tokens":4,"logprobs":2)";
  const Json plain = completed_with_log_probs(R"({"prompt":"Nora has a",)" + settings + "}");
  const Json words = completed_with_log_probs(R"({"custom_id":1,"url":"/v1/completions","body":)"
                                              R"({"prompt":"Nora has a",)" +
                                              settings + "}}");
  CHECK(words["/response/body/choices/0/logprobs"] == plain["/logprobs"]);

  const std::string messages = R"("messages":[{"role":"user","content":"What is 3 + 4?"}])";
  const Words qwen = {"--model", "story-qwen3"};
  const Json shown = completed_with_log_probs("{" + messages + "," + settings + "}", qwen);
  const Json chat = completed_with_log_probs(
      R"({"custom_id":1,"url":"/v1/chat/completions","body":{)" + messages +
          R"(,"max_tokens":4,"logprobs":true,"top_logprobs":2}})",
      qwen);
  const std::string content = "/response/body/choices/0/logprobs/content";
  const std::vector<double> chosen = numbers(shown, "/logprobs/token_logprobs");
  REQUIRE(!chosen.empty());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string token = fmt::format("{}/{}", content, i);
    CHECK(chat.number(token + "/logprob") == chosen[i]);
    CHECK(chat[token + "/token"] == shown[fmt::format("/logprobs/tokens/{}", i)]);
    CHECK(chat.has(token + "/top_logprobs/1"));
    CHECK_FALSE(chat.has(token + "/top_logprobs/2"));
    CHECK(chat.number(token + "/top_logprobs/0/logprob") == chosen[i]);
  }
  CHECK_FALSE(chat.has(fmt::format("{}/{}", content, chosen.size())));
  CHECK(chat["/response/body/choices/0/logprobs/refusal"] == "null");
}

TEST_CASE("tokens that the text does not show have no log probabilities") {
  const std::string ask = R"({"prompt":"Question: What is 3 + 4?\nAnswer:","max_tokens":8)";
  const Json ended = completed_with_log_probs(ask + R"(,"logprobs":0})", {"--token-ids"});
  CHECK(ended.text("/finish_reason") == "stop");
  const size_t num_tokens = ended.integers("/token_ids").size();
  CHECK(numbers(ended, "/logprobs/token_logprobs").size() == num_tokens - 1);
  const Json cut = completed_with_log_probs(ask + R"(,"logprobs":0,"stop":"7"})");
  CHECK(numbers(cut, "/logprobs/token_logprobs").size() < num_tokens - 1);
}

TEST_CASE("without a tokenizer tokens are named by their numbers") {
  const TempDir dir;
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    std::filesystem::copy(source_dir() + "/datasets/story-llama/" + name, dir / name);
  }
  const std::string line = R"({"prompt_token_ids":[1,5,9],"max_tokens":2,"logprobs":1})";
  const Json without = completed_with_log_probs(line, {"--model", dir.path()}),
             with = completed_with_log_probs(line);
  CHECK(without["/logprobs/token_logprobs"] == with["/logprobs/token_logprobs"]);
  const int64_t token = without.integers("/token_ids").front();
  CHECK(without.text("/logprobs/tokens/0") == fmt::format("token_id:{}", token));
  CHECK(without["/logprobs/text_offset"] == "[0,0]");
}

}  // namespace pagedinfer
