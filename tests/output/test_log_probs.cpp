// Log probabilities as records show them.
#include <doctest/doctest.h>

#include <limits>

#include "output/log_probs.h"

using namespace pagedinfer;

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Tokens 1 and 2 have one text, 4 is no text, nothing is known of 5.
TokenLabel label_of(TokenId token) {
  switch (token) {
    case 0: return {"a", "a"};
    case 1: return {" b", " b"};
    case 2: return {" b", " b"};
    case 3: return {"\"\xC3\xA9", "\"\xC3\xA9"};
    case 4: return {"bytes:\\xe2\\x82", "\xE2\x82"};
    default: return {numbered(token), {}};
  }
}

std::string completion_shape(const std::vector<TokenLogProbs>& tokens) {
  std::string out;
  JsonWriter json(out);
  write_log_probs(json, tokens, label_of);
  return out;
}

std::string chat_shape(const std::vector<TokenLogProbs>& tokens) {
  std::string out;
  JsonWriter json(out);
  write_chat_log_probs(json, tokens, label_of);
  return out;
}

}  // namespace

TEST_CASE("log probabilities of a completion are lists of equal length") {
  const std::vector<TokenLogProbs> tokens = {
      {.token = 3, .candidates = {{0, -1.0f}}},  // the first of a prompt has none
      {.token = 0,
       .log_probability = -0.1f,
       .candidates = {{0, -0.1f}, {4, -2.5f}, {5, -3.0f}},
       .text_offset = 2},
      {.token = 5, .log_probability = 0.0f, .text_offset = 3}};
  CHECK(completion_shape(tokens) ==
        R"({"tokens":["\")"
        "\xC3\xA9"
        R"(","a","token_id:5"],"token_logprobs":[null,-0.1,0],)"
        R"("top_logprobs":[null,{"a":-0.1,"bytes:\\xe2\\x82":-2.5,"token_id:5":-3},)"
        R"({"token_id:5":0}],"text_offset":[0,2,3]})");
  CHECK(completion_shape({}) ==
        R"({"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]})");
}

TEST_CASE("the token itself is always among its candidates, under its text") {
  const std::vector<TokenCandidate> candidates = {{1, -1.0f}, {0, -2.0f}};
  const auto top = [&](TokenId token, float log_probability) {
    const std::string all = completion_shape(
        {{.token = token, .log_probability = log_probability, .candidates = candidates}});
    const size_t begin = all.find("\"top_logprobs\":[") + 16;
    return all.substr(begin, all.find(']', begin) - begin);
  };
  CHECK(top(0, -2.0f) == R"({" b":-1,"a":-2})");
  CHECK(top(4, -7.0f) == R"({" b":-1,"a":-2,"bytes:\\xe2\\x82":-7})");
  // 1 and 2 have the same text.
  CHECK(top(2, -7.0f) == R"({"token_id:1":-1,"a":-2," b":-7})");
  CHECK(top(1, -1.0f) == R"({" b":-1,"a":-2})");
}

TEST_CASE("candidates of one text are told apart by their numbers") {
  const std::string all = completion_shape(
      {{.token = 0, .log_probability = -4.0f, .candidates = {{2, -1.0f}, {1, -1.5f}}}});
  CHECK(all.find(R"([{" b":-1,"token_id:1":-1.5,"a":-4}])") != std::string::npos);
}

TEST_CASE("a token that cannot be drawn has the number that stands for minus infinity") {
  const std::vector<TokenLogProbs> tokens = {
      {.token = 0, .log_probability = kNever, .candidates = {{1, -0.5f}}}};
  CHECK(completion_shape(tokens).find(R"("token_logprobs":[-9999.0],"top_logprobs":)"
                                      R"([{" b":-0.5,"a":-9999.0}])") != std::string::npos);
  CHECK(chat_shape(tokens).find(R"("logprob":-9999.0)") != std::string::npos);
}

TEST_CASE("log probabilities of a chat have each token's bytes and exactly its candidates") {
  const std::vector<TokenLogProbs> tokens = {
      {.token = 4, .log_probability = -0.25f, .candidates = {{0, -0.125f}, {5, -2.0f}}},
      {.token = 2, .log_probability = -1.0f}};
  CHECK(chat_shape(tokens) ==
        R"({"content":[{"token":"bytes:\\xe2\\x82","logprob":-0.25,"bytes":[226,130],)"
        R"("top_logprobs":[{"token":"a","logprob":-0.125,"bytes":[97]},)"
        R"({"token":"token_id:5","logprob":-2,"bytes":null}]},)"
        R"({"token":" b","logprob":-1,"bytes":[32,98],"top_logprobs":[]}],"refusal":null})");
  CHECK(chat_shape({}) == R"({"content":[],"refusal":null})");
}
