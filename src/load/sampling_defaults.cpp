#include "load/sampling_defaults.h"

#include <fmt/format.h>

#include "settings/values.h"

namespace pagedinfer {

SamplingParams default_sampling(const GivenSampling& flags, const GenerationDefaults& model,
                                bool has_tokenizer) {
  SamplingParams params;
  apply(model.sampling, params);
  if (!has_tokenizer) params.stop = {};
  apply(flags, params);
  if (!flags.has("min_tokens")) params.floor = model.floor;
  return params;
}

std::vector<std::string> generation_notes(const GivenSampling& flags,
                                          const GenerationDefaults& model, bool has_tokenizer) {
  constexpr auto kFile = "generation_config.json";
  std::vector<std::string> notes;
  if (!model.unsupported.empty()) {
    notes.push_back(fmt::format("{} asks for {}: not supported, completions are as without it",
                                kFile, model.unsupported));
  }
  if (!model.names_top_k && !flags.has("top_k") &&
      !(flags.has("temperature") && flags.values.temperature == 0)) {
    notes.push_back(
        fmt::format("{} has do_sample and no top_k: tokens are drawn without that "
                    "filter, transformers would filter with top_k 50; --top-k 50 does "
                    "the same here",
                    kFile));
  }
  const int max_tokens = SamplingParams{}.max_tokens;
  if (model.max_tokens && *model.max_tokens != max_tokens && !flags.has("max_tokens")) {
    notes.push_back(
        fmt::format("{} has a maximum length of {} tokens, which is not used: a "
                    "completion has {} at most; --max-tokens changes that",
                    kFile, *model.max_tokens, max_tokens));
  }
  if (!model.sampling.values.stop.empty() && !flags.has("stop") && !has_tokenizer) {
    notes.push_back(
        fmt::format("{} has stop_strings, and the model directory no tokenizer: "
                    "completions do not end there",
                    kFile));
  }
  return notes;
}

}  // namespace pagedinfer
