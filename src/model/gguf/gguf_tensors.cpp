#include "model/gguf/gguf_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "model/gguf/architectures.h"

namespace pagedinfer {
namespace {

constexpr GgufName kOutside[] = {
    {"token_embd.", "model.embed_tokens."},
    {"output_norm.", "model.norm."},
    {"output.", "lm_head."},
};
constexpr GgufName kInLayers[] = {
    {"attn_norm.", "input_layernorm."},
    {"attn_q.", "self_attn.q_proj."},
    {"attn_k.", "self_attn.k_proj."},
    {"attn_v.", "self_attn.v_proj."},
    {"attn_qkv.", "self_attn.qkv_proj."},
    {"attn_output.", "self_attn.o_proj."},
    {"attn_q_norm.", "self_attn.q_norm."},
    {"attn_k_norm.", "self_attn.k_norm."},
    {"post_attention_norm.", "post_attention_layernorm."},
    {"ffn_norm.", "post_attention_layernorm."},
    {"post_ffw_norm.", "post_feedforward_layernorm."},
    {"ffn_gate.", "mlp.gate_proj."},
    {"ffn_up.", "mlp.up_proj."},
    {"ffn_down.", "mlp.down_proj."},
};

// The name with the part that a row has for its beginning; nullopt if no row fits.
std::optional<std::string> usual_name(std::span<const GgufName> rows, std::string_view name) {
  for (const GgufName& row : rows) {
    if (!name.starts_with(row.gguf)) continue;
    return fmt::format("{}{}", row.usual, name.substr(row.gguf.size()));
  }
  return std::nullopt;
}

// A name below a layer: "blk.7.attn_q.weight" is {"7", "attn_q.weight"}.
std::optional<std::pair<std::string_view, std::string_view>> in_layer(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return std::nullopt;
  name.remove_prefix(kBlock.size());
  const size_t dot = name.find('.');
  if (dot == name.npos) return std::nullopt;
  return std::pair(name.substr(0, dot), name.substr(dot + 1));
}

// Which matrix of experts a tensor has: "ffn_gate_exps." and so on; empty: it has none.
std::string_view matrix_of_experts(const GgufExperts& experts, std::string_view name) {
  if (name.starts_with("ffn_gate_exps.")) return experts.gate;
  if (name.starts_with("ffn_up_exps.")) return experts.up;
  return name.starts_with("ffn_down_exps.") ? experts.down : "";
}

// Adds a tensor by its usual name. Throws Error if another one of the file has it.
void add(const std::string& name, const StoredTensor& tensor, StoredTensors& tensors) {
  if (tensors.try_emplace(name, tensor).second) return;
  throw Error(fmt::format("{}: two tensors are '{}', expected one", tensor.file, shortened(name)));
}

// Adds a tensor for each expert. `stacked` has one below the other.
void add_experts(const std::string& name, const StoredTensor& stacked, const std::string& block,
                 std::string_view end, StoredTensors& tensors) {
  constexpr int64_t kMaxStacked = 1 << 14;
  const size_t dims = stacked.shape.size();
  // A file of some kilobytes could have any number of experts without numbers.
  if (dims < 2 || dims > 3 || stacked.bytes.empty() || stacked.shape[0] > kMaxStacked) {
    throw Error(fmt::format("{}: tensor '{}' has shape [{}], expected numbers of 1 to {} experts",
                            stacked.file, shortened(name), fmt::join(stacked.shape, ", "),
                            kMaxStacked));
  }
  const auto count = static_cast<size_t>(stacked.shape[0]);
  const size_t bytes = stacked.bytes.size() / count;
  for (size_t e = 0; e < count; ++e) {
    StoredTensor tensor = stacked;
    tensor.shape.erase(tensor.shape.begin());
    tensor.bytes = stacked.bytes.subspan(e * bytes, bytes);
    add(fmt::format("{}.{}.{}", block, e, end), tensor, tensors);
  }
}

void add_tensor(const GgufArchitecture& architecture, const std::string& name,
                const StoredTensor& tensor, StoredTensors& tensors) {
  const auto place = in_layer(name);
  if (!place) {
    return add(usual_name(kOutside, name).value_or(name), tensor, tensors);
  }
  const auto& [layer, rest] = *place;
  const std::string root = fmt::format("model.layers.{}.", layer);
  if (const std::string_view matrix = matrix_of_experts(architecture.experts, rest);
      !matrix.empty()) {
    return add_experts(name, tensor, fmt::format("{}{}", root, architecture.experts.block),
                       fmt::format("{}{}", matrix, rest.substr(rest.find('.'))), tensors);
  }
  auto usual = usual_name(architecture.names, rest);
  if (!usual) usual = usual_name(kInLayers, rest);
  add(usual ? root + *usual : name, tensor, tensors);
}

}  // namespace

Checkpoint gguf_checkpoint(const GgufFile& file) {
  const GgufArchitecture& architecture = find_architecture(file.metadata());
  StoredTensors tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    add_tensor(architecture, name, tensor, tensors);
  }
  return {file.files()->front().path(), file.files(), std::move(tensors)};
}

}  // namespace pagedinfer
