// What families with experts have in common: their fields in config.json and their tensors' names.
#include <fmt/format.h>

#include <algorithm>

#include "model/families.h"

namespace pagedinfer {
namespace {

// Of a layer, and of all layers: each has tensors with names of its own.
constexpr int kMaxExperts = 1 << 14, kMaxAllExperts = 1 << 18;
constexpr int kMaxStep = 1 << 12;

}  // namespace

void read_experts(const JsonObject& config, const ExpertFields& fields, ModelSpec& spec) {
  const auto size = [&](std::string_view key, int otherwise, int max) {
    int value = 0;
    config.keep(
        [&] { value = static_cast<int>(config.find_integer(key, 1, max).value_or(otherwise)); });
    return value;
  };
  // transformers reads either of its names, and saves a model by the one or the other.
  constexpr std::string_view kNames[] = {"num_experts", "num_local_experts"};
  const std::string_view other = kNames[fields.count_key == kNames[0] ? 1 : 0];
  const bool is_other = config.has(other) && !config.has(fields.count_key);
  const std::string_view count_key = is_other ? other : fields.count_key;
  ExpertsSpec& experts = spec.experts;
  experts.count = size(count_key, fields.count, kMaxExperts);
  experts.per_token = size("num_experts_per_tok", fields.per_token, kMaxExperts);
  experts.width =
      fields.width == 0 ? spec.intermediate : size(fields.width_key, fields.width, kMaxExpertWidth);
  if (experts.count > 0 && experts.per_token > experts.count) {
    config.complain("num_experts_per_tok", std::to_string(experts.per_token),
                    fmt::format("at most the {} experts", experts.count));
    experts.per_token = experts.count;
  }
  if (experts.count * std::ssize(spec.layers) > kMaxAllExperts) {
    config.complain(count_key, fmt::format("{} in {} layers", experts.count, spec.layers.size()),
                    fmt::format("at most {} together", kMaxAllExperts));
    experts.count = 0;
  }
  for (LayerSpec& layer : spec.layers) layer.has_experts = experts.count > 0;
}

void read_sparse_layers(const JsonObject& config, ModelSpec& spec) {
  int64_t step = 1;
  std::vector<int64_t> dense;
  config.keep([&] { step = config.find_integer("decoder_sparse_step", 1, kMaxStep).value_or(1); });
  config.keep([&] { dense = config.integers("mlp_only_layers", 0, std::ssize(spec.layers) - 1); });
  for (int64_t i = 0; i < std::ssize(spec.layers); ++i) {
    if ((i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end()) continue;
    spec.layers[static_cast<size_t>(i)].has_experts = false;
  }
}

ExpertNaming stacked(ExpertNaming naming) {
  naming.gate = naming.up = "experts.gate_up_proj";
  naming.down = "experts.down_proj";
  naming.storage = ExpertStorage::kStackedRows;
  return naming;
}

void add_expert_names(std::string_view root, const ExpertNaming& naming, const ModelSpec& spec,
                      TensorNames& names) {
  names.expert_storage = naming.storage;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_experts) continue;
    const std::string block = fmt::format("{}layers.{}.{}", root, i, naming.block);
    LayerNames& layer = names.layers[i];
    const auto below = [](std::string_view parent, std::string_view name) {
      return fmt::format("{}.{}", parent, name);
    };
    layer.router = below(block, naming.router);
    layer.router_bias = below(block, naming.router_bias);
    if (!naming.module.empty()) {
      layer.expert_module = fmt::format("{}layers.{}.{}", root, i, naming.module);
    }
    if (spec.experts.shared_width > 0) {
      const auto in_layer = [&](std::string_view name) {
        return fmt::format("{}layers.{}.{}", root, i, name);
      };
      layer.shared.gate = in_layer(naming.shared_gate_proj);
      layer.shared.up = in_layer(naming.shared_up_proj);
      layer.shared.down = in_layer(naming.shared_down_proj);
      layer.shared_gate = below(block, naming.shared_gate);
    }
    const bool is_each = naming.storage == ExpertStorage::kEach;
    const int count = is_each ? spec.experts.count : 1;
    for (int e = 0; e < count; ++e) {
      const std::string parent = is_each ? fmt::format("{}.experts.{}", block, e) : block;
      layer.experts.push_back({.gate = below(parent, naming.gate),
                               .up = below(parent, naming.up),
                               .down = below(parent, naming.down),
                               .gate_bias = below(parent, naming.gate_bias),
                               .up_bias = below(parent, naming.up_bias),
                               .down_bias = below(parent, naming.down_bias)});
    }
  }
}

}  // namespace pagedinfer
