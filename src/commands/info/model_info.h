#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "core/request.h"
#include "intake/chat_prompt.h"
#include "model/inspect.h"
#include "model/spec.h"
#include "settings/config.h"
#include "text/files/make_tokenizer.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// A token to which the model's files give a meaning.
struct NamedToken {
  std::string name = {};  // "bos_token"; "" = it has none
  std::string text = {};  // "" = unknown
  std::optional<TokenId> id = {};
};

// How a run would use a model directory, and why it would refuse it.
struct ModelInfo {
  ModelStore store;
  std::string name = {};
  InspectedModel model = {};
  std::string compute = {};  // "bfloat16 on cpu"; "" if unknown
  std::string cache = {};    // type of keys and values, as in "bfloat16"; "" if unknown

  TokenizerKind tokenizer_kind = {};
  std::unique_ptr<Tokenizer> tokenizer = {};  // null: there is none, or it cannot be used
  int num_tokens = 0;                         // of the tokenizer
  std::vector<NamedToken> special_tokens = {};
  std::vector<NamedToken> ends = {};          // tokens that end any completion
  std::vector<NamedToken> ends_of_turn = {};  // more tokens that end it in a conversation

  ChatSettings chat = {};
  std::string example = {};  // a conversation as the template writes it; "" if it fails

  SamplingParams defaults = {};
  // What generation_config.json changes: keys and values.
  std::vector<std::pair<std::string, std::string>> generation = {};

  Problems problems = {};               // why a run is refused
  std::vector<std::string> notes = {};  // what a run ignores or cannot do
  bool supported() const { return problems.all().empty(); }
};

// Reads all files except the contents of the weights. Throws Error if the directory does not exist.
ModelInfo describe_model(const Config& config);

// What a model computes beyond a plain decoder, in words: ("soft caps", "scores at 50"). The spec
// may be incomplete.
std::vector<std::pair<std::string, std::string>> traits_of(const ModelSpec& spec);

// The description as readable lines.
std::string info_text(const ModelInfo& info);

// The description as one JSON object on one line.
std::string info_json(const ModelInfo& info);

}  // namespace pagedinfer
