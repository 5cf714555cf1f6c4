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
#include "settings/config.h"
#include "text/files/tokenizer_kind.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// A token that the files of a model give a meaning.
struct NamedToken {
  std::string name = {};  // "bos_token"; "" = it has none
  std::string text = {};  // "" = unknown
  std::optional<TokenId> id = {};
};

// What a run would make of a model directory, and why it would not run.
struct ModelInfo {
  std::string dir = {}, name = {};
  InspectedModel model = {};
  std::string compute = {};  // "bfloat16 on cpu"; "" if that is not known
  std::string cache = {};    // "bfloat16": of keys and values; "" if that is not known

  TokenizerKind tokenizer_kind = {};
  std::unique_ptr<Tokenizer> tokenizer = {};  // null: there is none, or it cannot be used
  int num_tokens = 0;                         // of the tokenizer
  std::vector<NamedToken> special_tokens = {};
  std::vector<NamedToken> ends = {};          // of any completion
  std::vector<NamedToken> ends_of_turn = {};  // of a conversation's completion, beside those

  ChatSettings chat = {};
  std::string example = {};  // a conversation as the template writes it; "" if it cannot

  SamplingParams defaults = {};
  // What generation_config.json changes: keys and values.
  std::vector<std::pair<std::string, std::string>> generation = {};

  Problems problems = {};               // why a run is refused
  std::vector<std::string> notes = {};  // what a run does not do
  bool supported() const { return problems.all().empty(); }
};

// Reads all files but the bytes of the weights. Throws Error if there is no such directory.
ModelInfo describe_model(const Config& config);

}  // namespace pagedinfer
