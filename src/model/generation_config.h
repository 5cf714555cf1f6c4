// generation_config.json: how a model's authors want its tokens to be drawn. What it says of
// tokens goes into the spec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "io/json_file.h"
#include "model/spec.h"

namespace pagedinfer {

// What holds where neither a line nor a flag says otherwise. The values here ask for nothing.
struct GenerationDefaults {
  float temperature = 0.0f;  // 0 unless the model says do_sample
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  LengthFloor floor = {};
  std::vector<std::string> stop = {};

  // For notes: what is there and has no effect here.
  bool names_top_k = true;                 // or does not sample
  std::optional<int64_t> max_tokens = {};  // max_new_tokens, else max_length
  std::string not_done = {};               // "num_beams 4, typical_p 0.9"
};

// REQUIRES: the spec knows its vocabulary and ends. Throws Error for what cannot be read.
GenerationDefaults read_generation_config(const JsonObject& from, ModelSpec& spec);

}  // namespace pagedinfer
