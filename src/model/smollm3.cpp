// SmolLM3: every fourth layer, or those that "no_rope_layers" names, has no rope.
#include <fmt/format.h>

#include <iterator>
#include <optional>

#include "core/refusal.h"
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

namespace {

// For each layer whether it has rope; nullopt if that cannot be read. In the field 1 means that it
// has, whatever its name says.
std::optional<std::vector<bool>> read_rope_layers(const JsonObject& config, size_t num_layers) {
  std::vector<int64_t> given;
  int64_t interval = 4;
  const bool is_known = config.keep([&] {
    given = config.integers("no_rope_layers", 0, 1);
    interval = config.find_integer("no_rope_layer_interval", 1, 1 << 12).value_or(interval);
  });
  if (!is_known) return std::nullopt;
  if (config.has("no_rope_layers") && given.size() < num_layers) {
    config.complain("no_rope_layers", counted(std::ssize(given), "entry", "entries"),
                    fmt::format("{}, as many as layers", num_layers));
    return std::nullopt;
  }
  std::vector<bool> has_rope;
  for (size_t i = 0; i < num_layers; ++i) {
    const bool by_interval = (static_cast<int64_t>(i) + 1) % interval != 0;
    has_rope.push_back(given.empty() ? by_interval : given[i] == 1);
  }
  return has_rope;
}

}  // namespace

void read_smollm3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.hidden = 2048,
              .vocab = 128256,
              .intermediate = 11008,
              .max_positions = 32768,
              .layers = 36,
              .heads = 16,
              .kv_heads = 4,
              .tied_embeddings = true,
              .eos_token = 128001},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  read_rope(config, {.theta = 2e6}, spec);
  const auto has_rope = read_rope_layers(config, spec.layers.size());
  for (size_t i = 0; has_rope && i < spec.layers.size(); ++i) {
    spec.layers[i].rope = (*has_rope)[i] ? 0 : kNoRope;
  }

  // Without "layer_types", layers without rope slide.
  const std::optional<int> window = read_window(config, 0);
  SlidingLayers by_switch;
  config.keep([&] {
    const bool is_on =
        config.find_bool("use_sliding_window").value_or(false) && window.value_or(0) > 0;
    if (!has_rope) return;
    by_switch.emplace();
    for (const bool rope : *has_rope) by_switch->push_back(is_on && !rope);
  });
  read_windows(config, by_switch, window, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
