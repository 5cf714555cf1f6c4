#include "engine/sampling_defaults.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagedinfer {

SamplingParams default_sampling(const Config::Sampling& flags, const GenerationDefaults& model,
                                bool has_tokenizer) {
  SamplingParams params;
  params.temperature = flags.temperature.value_or(model.temperature);
  params.top_k = std::max(flags.top_k.value_or(model.top_k), 0);
  params.top_p = flags.top_p.value_or(model.top_p);
  params.min_p = flags.min_p.value_or(model.min_p);
  params.repetition_penalty = flags.repetition_penalty.value_or(model.repetition_penalty);
  params.presence_penalty = flags.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = flags.frequency_penalty.value_or(params.frequency_penalty);
  params.seed = flags.seed.value_or(params.seed);
  params.max_tokens = flags.max_tokens.value_or(params.max_tokens);
  params.min_tokens = flags.min_tokens.value_or(params.min_tokens);
  if (!flags.min_tokens) params.floor = model.floor;
  params.ignore_eos = flags.ignore_eos.value_or(params.ignore_eos);
  params.stop = flags.stop;
  if (flags.stop.empty() && has_tokenizer) params.stop = model.stop;
  params.stop_token_ids = flags.stop_token_ids;
  return params;
}

std::vector<std::string> generation_notes(const Config::Sampling& flags,
                                          const GenerationDefaults& model, bool has_tokenizer) {
  constexpr auto kFile = "generation_config.json";
  std::vector<std::string> notes;
  if (!model.unsupported.empty()) {
    notes.push_back(fmt::format("{} asks for {}: not supported, completions are as without it",
                                kFile, model.unsupported));
  }
  if (!model.names_top_k && !flags.top_k && flags.temperature != 0.0f) {
    notes.push_back(
        fmt::format("{} has do_sample and no top_k: tokens are drawn without that "
                    "filter, transformers would filter with top_k 50; --top-k 50 does "
                    "the same here",
                    kFile));
  }
  const int max_tokens = SamplingParams{}.max_tokens;
  if (model.max_tokens && *model.max_tokens != max_tokens && !flags.max_tokens) {
    notes.push_back(
        fmt::format("{} has a greatest length of {} tokens, which is not used: a "
                    "completion has {} at most; --max-tokens changes that",
                    kFile, *model.max_tokens, max_tokens));
  }
  if (!model.stop.empty() && flags.stop.empty() && !has_tokenizer) {
    notes.push_back(
        fmt::format("{} has stop_strings, and the model directory no tokenizer: "
                    "completions do not end there",
                    kFile));
  }
  return notes;
}

}  // namespace pagedinfer
