#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/json.h"
#include "core/request.h"

namespace pagedinfer {

// How records show a token.
struct TokenLabel {
  std::string text = {};                  // UTF-8
  std::optional<std::string> bytes = {};  // that the token adds to a text; nullopt: unknown
};
using TokenLabels = std::function<TokenLabel(TokenId)>;

// The label of a token without a known text: its number.
std::string numbered(TokenId token);

// Writes log probabilities as OpenAI's completions do: an object of lists, each with an entry for
// each token. An entry of top_logprobs always includes the token itself, and has no token twice.
void write_log_probs(JsonWriter& json, std::span<const TokenLogProbs> tokens,
                     const TokenLabels& label_of);

// Writes log probabilities as OpenAI's chat completions do: a list of objects, one for each token,
// with the candidates in their order.
void write_chat_log_probs(JsonWriter& json, std::span<const TokenLogProbs> tokens,
                          const TokenLabels& label_of);

}  // namespace pagedinfer
