#include "model/unused_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include "core/refusal.h"

namespace pagedinfer {
namespace {

// With the parts of quantized matrices.
std::set<std::string_view> used_names(const Checkpoint& files,
                                      const std::vector<Checkpoint::Declared>& needed,
                                      const QuantizedWeights& quantized) {
  std::set<std::string_view> used;
  for (const Checkpoint::Declared& tensor : needed) {
    used.insert(tensor.name);
    if (!quantized.has(files, tensor.name)) continue;
    const std::string begin = quantized.begin_of_parts(tensor.name);
    const StoredTensors& tensors = files.tensors();
    for (auto part = tensors.lower_bound(begin);
         part != tensors.end() && part->first.starts_with(begin); ++part) {
      if (!part->first.ends_with("bias")) used.insert(part->first);
    }
  }
  return used;
}

bool changes_nothing(const std::string& name, const StoredTensor& tensor) {
  if (name.ends_with("rotary_emb.inv_freq") || name.starts_with("rope_f")) return true;
  return name.ends_with(".bias") &&
         std::ranges::all_of(tensor.bytes, [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace

std::vector<std::string> weight_notes(const Checkpoint& files, const TensorNames& names,
                                      const std::vector<Checkpoint::Declared>& needed,
                                      const QuantizedWeights& quantized) {
  const std::set<std::string_view> used = used_names(files, needed, quantized);
  constexpr int64_t kShown = 3;
  int64_t count = 0;
  std::vector<std::string> shown;
  for (const auto& [name, tensor] : files.tensors()) {
    const auto is_of = [&](const std::string& part) { return name.starts_with(part); };
    if (used.contains(name) || name == names.output || changes_nothing(name, tensor) ||
        std::ranges::any_of(names.unused, is_of)) {
      continue;
    }
    if (++count <= kShown) shown.push_back(shortened(name));
  }
  std::vector<std::string> notes = quantized.notes();
  if (count > 0) {
    notes.push_back(fmt::format("the checkpoint has {} that the model does not use: {}{}",
                                counted(count, "tensor", "tensors"), fmt::join(shown, ", "),
                                count > kShown ? " and others" : ""));
  }
  return notes;
}

}  // namespace pagedinfer
