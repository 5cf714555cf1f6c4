#include "output/log_probs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace pagedinfer {
namespace {

// JSON has no minus infinity. The number instead of it is the same as in OpenAI and vLLM.
void write_number(JsonWriter& json, std::optional<float> log_probability) {
  if (!log_probability) {
    json.value(nullptr);
  } else if (std::isinf(*log_probability)) {
    json.raw("-9999.0");
  } else {
    json.value(*log_probability);
  }
}

// Two tokens may have the same text. The text then stands for the token itself if it is one of the
// two, else for the likelier token.
void write_candidates(JsonWriter& json, const TokenLogProbs& token, const TokenLabels& label_of) {
  std::vector<std::string> names = {label_of(token.token).text};
  bool has_token = false;
  json.begin_object();
  for (const TokenCandidate& candidate : token.candidates) {
    if (candidate.token == token.token) {
      has_token = true;
      json.key(names.front());
    } else {
      std::string name = label_of(candidate.token).text;
      if (std::ranges::find(names, name) != names.end()) name = numbered(candidate.token);
      json.key(name);
      names.push_back(std::move(name));
    }
    write_number(json, candidate.log_probability);
  }
  if (!has_token) write_number(json.key(names.front()), token.log_probability);
  json.end_object();
}

void write_chat_token(JsonWriter& json, TokenId token, std::optional<float> log_probability,
                      const TokenLabels& label_of) {
  const TokenLabel label = label_of(token);
  write_number(json.field("token", label.text).key("logprob"), log_probability);
  json.key("bytes");
  if (!label.bytes) {
    json.value(nullptr);
    return;
  }
  json.begin_array();
  for (const char byte : *label.bytes) json.value(int{static_cast<unsigned char>(byte)});
  json.end_array();
}

}  // namespace

std::string numbered(TokenId token) { return fmt::format("token_id:{}", token); }

void write_log_probs(JsonWriter& json, std::span<const TokenLogProbs> tokens,
                     const TokenLabels& label_of) {
  json.begin_object().key("tokens").begin_array();
  for (const TokenLogProbs& token : tokens) json.value(label_of(token.token).text);
  json.end_array().key("token_logprobs").begin_array();
  for (const TokenLogProbs& token : tokens) write_number(json, token.log_probability);
  json.end_array().key("top_logprobs").begin_array();
  for (const TokenLogProbs& token : tokens) {
    if (token.log_probability) {
      write_candidates(json, token, label_of);
    } else {
      json.value(nullptr);
    }
  }
  json.end_array().key("text_offset").begin_array();
  for (const TokenLogProbs& token : tokens) json.value(token.text_offset);
  json.end_array().end_object();
}

void write_chat_log_probs(JsonWriter& json, std::span<const TokenLogProbs> tokens,
                          const TokenLabels& label_of) {
  json.begin_object().key("content").begin_array();
  for (const TokenLogProbs& token : tokens) {
    json.begin_object();
    write_chat_token(json, token.token, token.log_probability, label_of);
    json.key("top_logprobs").begin_array();
    for (const TokenCandidate& candidate : token.candidates) {
      json.begin_object();
      write_chat_token(json, candidate.token, candidate.log_probability, label_of);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().field("refusal", nullptr).end_object();
}

}  // namespace pagedinfer
