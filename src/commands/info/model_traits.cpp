#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "commands/info/model_info.h"

namespace pagedinfer {
namespace {

using Words = std::vector<std::string>;

Words biases(const ModelSpec& spec) {
  Words words;
  if (spec.qkv_bias) words.emplace_back("q, k and v");
  if (spec.attention_out_bias) words.emplace_back("the output of attention");
  if (spec.mlp_bias) words.emplace_back("the MLP");
  if (spec.experts.router_bias) words.emplace_back("the router");
  if (spec.experts.biases) words.emplace_back("the experts");
  return words;
}

Words norms(const ModelSpec& spec) {
  Words words;
  if (spec.qk_norm == QkNorm::kHeads) words.emplace_back("each head of q and k");
  if (spec.qk_norm == QkNorm::kRows) words.emplace_back("q and k as a whole");
  if (spec.norms_outputs) {
    words.emplace_back(spec.norms_inputs ? "inputs and outputs of blocks"
                                         : "outputs of blocks only");
  }
  return words;
}

Words multipliers(const ModelSpec& spec) {
  Words words;
  const auto add = [&](std::string_view name, float factor) {
    if (factor != 1.0f) words.push_back(fmt::format("{} {:.6g}", name, factor));
  };
  add("embedding", spec.embedding_scale);
  add("outputs of blocks", spec.residual_scale);
  add("logits", spec.logit_scale);
  return words;
}

Words caps(const ModelSpec& spec) {
  Words words;
  if (spec.qkv_limit > 0) words.push_back(fmt::format("q, k and v at {:.6g}", spec.qkv_limit));
  if (spec.score_cap > 0) words.push_back(fmt::format("scores at {:.6g}", spec.score_cap));
  if (spec.logit_cap > 0) words.push_back(fmt::format("logits at {:.6g}", spec.logit_cap));
  return words;
}

Words experts(const ModelSpec& spec) {
  const ExpertsSpec& experts = spec.experts;
  if (experts.count == 0) return {};
  Words words = {fmt::format("{} of {} channels, {} for a token", experts.count, experts.width,
                             experts.per_token)};
  if (experts.shared_width > 0) {
    words.push_back(fmt::format("one of {} for all tokens", experts.shared_width));
  }
  const auto dense = std::ranges::count(spec.layers, false, &LayerSpec::has_experts);
  if (dense > 0) {
    words.push_back(fmt::format("{} of {} layers have none", dense, spec.layers.size()));
  }
  return words;
}

Words rope(const ModelSpec& spec) {
  std::set<std::string> words;  // a set, because ropes may share words
  for (const RopeSpec& rope : spec.ropes) {
    const int64_t channels = 2 * std::ssize(rope.inv_freq);
    if (channels < spec.head_dim) {
      words.insert(fmt::format("rotates {} of {} channels", channels, spec.head_dim));
    }
    if (rope.scale != 1.0f) words.insert(fmt::format("cosines and sines times {:.6g}", rope.scale));
    if (!rope.long_inv_freq.empty()) {
      words.insert(
          fmt::format("other frequencies if max-model-len is above {}", rope.short_positions));
    }
  }
  const auto without = std::ranges::count(spec.layers, kNoRope, &LayerSpec::rope);
  if (without > 0) {
    words.insert(fmt::format("{} of {} layers have none", without, spec.layers.size()));
  }
  if (spec.max_stretched_positions > 0) {
    words.insert(fmt::format("--max-model-len may be up to {}", spec.max_stretched_positions));
  }
  return {words.begin(), words.end()};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> traits_of(const ModelSpec& spec) {
  std::vector<std::pair<std::string, std::string>> traits;
  const auto add = [&](std::string_view name, const Words& words) {
    if (!words.empty()) traits.emplace_back(name, fmt::format("{}", fmt::join(words, ", ")));
  };
  add("rope", rope(spec));
  add("experts", experts(spec));
  add("biases", biases(spec));
  add("norms", norms(spec));
  add("multipliers", multipliers(spec));
  add("soft caps", caps(spec));
  return traits;
}

}  // namespace pagedinfer
