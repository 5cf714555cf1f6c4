// Qwen 2 MoE: Qwen 2 with experts beside a shared one, whose output a sigmoid multiplies.
#include <algorithm>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

// Without "layer_types" every second one of the first "max_window_layers" layers slides, if
// "use_sliding_window" is true.
void read_own_windows(const JsonObject& config, ModelSpec& spec) {
  std::optional<int> window;
  SlidingLayers sliding;
  config.keep([&] {
    const bool is_on = config.find_bool("use_sliding_window").value_or(false);
    window = is_on ? read_window(config, 4096) : 0;
  });
  config.keep([&] {
    constexpr int kMaxSlidingLayers = 1 << 12;
    const int64_t end = config.find_integer("max_window_layers", 0, kMaxSlidingLayers).value_or(28);
    sliding.emplace(spec.layers.size(), false);
    for (int64_t i = 0; i < std::min<int64_t>(end, std::ssize(spec.layers)); i += 2) {
      (*sliding)[static_cast<size_t>(i)] = window.value_or(0) > 0;
    }
  });
  read_windows(config, sliding, window, spec);
}

}  // namespace

void read_qwen2_moe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.hidden = 2048,
              .vocab = 151936,
              .intermediate = 5632,
              .max_positions = 32768,
              .layers = 24,
              .heads = 16,
              .kv_heads = 16},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  config.keep([&] { spec.qkv_bias = config.find_bool("qkv_bias").value_or(true); });
  read_rope(config, {}, spec);
  read_own_windows(config, spec);
  read_experts(config, {.count = 60, .per_token = 4, .width = 1408}, spec);
  read_sparse_layers(config, spec);
  ExpertsSpec& experts = spec.experts;
  config.keep(
      [&] { experts.normalizes_chosen = config.find_bool("norm_topk_prob").value_or(false); });
  config.keep([&] {
    constexpr std::string_view kKey = "shared_expert_intermediate_size";
    experts.shared_width =
        static_cast<int>(config.find_integer(kKey, 1, kMaxExpertWidth).value_or(5632));
  });
  experts.gates_shared = true;
  ExpertNaming naming = {.shared_gate_proj = "mlp.shared_expert.gate_proj.weight",
                         .shared_up_proj = "mlp.shared_expert.up_proj.weight",
                         .shared_down_proj = "mlp.shared_expert.down_proj.weight",
                         .shared_gate = "shared_expert_gate.weight"};
  names.assign(2, usual_names("model.", "lm_head.weight", spec));
  add_expert_names("model.", naming, spec, names[0]);
  add_expert_names("model.", stacked(naming), spec, names[1]);
}

}  // namespace pagedinfer
