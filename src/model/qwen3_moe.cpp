// Qwen 3 MoE: Qwen 3 whose layers have experts, all but those that two fields name. All layers have
// the window or none has. Qwen 3 VL MoE: the same without windows and with other defaults; the
// weights of a token's experts always sum to 1.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

void read(const JsonObject& config, const ConfigDefaults& defaults, double theta,
          const ExpertFields& fields, ModelSpec& spec) {
  read_sizes(config, defaults, spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  spec.qk_norm = QkNorm::kHeads;
  read_rope(config, {.theta = theta}, spec);
  read_experts(config, fields, spec);
  read_sparse_layers(config, spec);
}

void read_vl_text(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>&) {
  read(config,
       {.hidden = 2048,
        .vocab = 151936,
        .intermediate = 5632,
        .max_positions = 128000,
        .layers = 24,
        .heads = 16,
        .kv_heads = 16},
       5e5, {.count = 60, .per_token = 4, .width = 1408}, spec);
}

}  // namespace

void read_qwen3_moe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read(config,
       {.hidden = 2048,
        .vocab = 151936,
        .intermediate = 6144,
        .max_positions = 32768,
        .layers = 24,
        .kv_heads = 4},
       1e4, {.count = 128, .per_token = 8, .width = 768}, spec);
  config.keep([&] {
    const bool is_on = config.find_bool("use_sliding_window").value_or(false);
    read_equal_windows(config, is_on ? read_window(config, 4096) : 0, spec);
  });
  config.keep(
      [&] { spec.experts.normalizes_chosen = config.find_bool("norm_topk_prob").value_or(false); });
  names.assign(2, usual_names("model.", "lm_head.weight", spec));
  add_expert_names("model.", {}, spec, names[0]);
  add_expert_names("model.", stacked({}), spec, names[1]);
}

void read_qwen3_vl_moe_wrapper(const JsonObject& config, ModelSpec& spec,
                               std::vector<TensorNames>& names) {
  ExpertNaming published = stacked({});
  published.storage = ExpertStorage::kStackedColumns;
  read_wrapped(
      config,
      {.read_text = read_vl_text, .parts = {"visual."}, .experts = {published, ExpertNaming()}},
      spec, names);
}

}  // namespace pagedinfer
