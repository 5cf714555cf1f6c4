// Gemma 3: text-only checkpoints, and the text model of those for pictures.
#include <fmt/format.h>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

void refuse_number(const JsonObject& config, std::string_view key) {
  config.keep([&] {
    const auto number = config.find_number(key, -1e30, 1e30);
    if (number) config.complain(key, fmt::format("is {}, which is not supported", *number));
  });
}

}  // namespace

void read_gemma3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_newer_gemma(config, 262208, 131072, spec);
  refuse_number(config, "attn_logit_softcapping");
  refuse_number(config, "final_logit_softcapping");
  spec.qk_norm = QkNorm::kHeads;

  SlidingLayers by_pattern;
  config.keep([&] {
    const int64_t pattern = config.find_integer("sliding_window_pattern", 1, 1 << 12).value_or(6);
    by_pattern = all_but_each(pattern, spec);
  });
  const SlidingLayers slides = read_windows(config, by_pattern, read_window(config, 4096), spec);
  read_layer_ropes(config, {"rope_theta", 1e6}, {"rope_local_base_freq", 1e4}, slides, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

void read_gemma3_wrapper(const JsonObject& config, ModelSpec& spec,
                         std::vector<TensorNames>& names) {
  read_wrapped(config,
               {.read_text = read_gemma3,
                .tied_embeddings = true,
                .published = TextPlace::kBeside,
                .parts = {"vision_tower.", "multi_modal_projector."}},
               spec, names);
}

}  // namespace pagedinfer
