#include "model/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "model/families.h"
#include "model/gguf/gguf_tensors.h"
#include "model/needed_tensors.h"
#include "model/quantized/method.h"

namespace pagedinfer {

void check_experts(const JsonObject& config, const ModelSpec& spec) {
  if (spec.experts.count > 0) return;
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    config.keep([&] {
      if (config.find_integer(key, 0, INT64_MAX).value_or(0) == 0) return;
      config.complain(key, "is there, and experts are not supported");
    });
  }
}

void read_gguf_layout(const JsonObject& config, ModelSpec& spec) {
  const auto layout = config.find_object("gguf");
  if (!layout) return;
  if (layout->find_bool("turns_heads").value_or(false)) {
    spec.pair_rows = PairRows::kNeighboursInFile;
  }
  if (layout->find_bool("adds_to_norms").value_or(false)) spec.norm_weight_offset = 0.0f;
}

GenerationDefaults read_generation(const ModelStore& store, ModelSpec& spec, Problems* problems) {
  constexpr std::string_view kFile = "generation_config.json";
  if (!store.has(kFile)) return {};
  const JsonFile file = store.json(kFile, problems);
  read_eos_tokens(file.root(), spec);
  return read_generation_config(file.root(), spec);
}

TensorNames choose_names(const std::vector<TensorNames>& candidates, const ModelSpec& spec,
                         const Checkpoint& files, const QuantizedWeights& quantized) {
  return *std::ranges::max_element(candidates, {}, [&](const TensorNames& names) {
    return std::ranges::count_if(
        needed_tensors(spec, names), [&](const Checkpoint::Declared& tensor) {
          return files.contains(tensor.name) || quantized.has(files, tensor.name);
        });
  });
}

void tie_embeddings(const Checkpoint& files, TensorNames& names, ModelSpec& spec) {
  if (!spec.tied_embeddings || !files.contains(names.output)) return;
  if (!files.contains(names.embedding)) {
    names.embedding = names.output;
  } else {
    spec.tied_embeddings = files.same(names.embedding, names.output);
  }
}

Checkpoint open_checkpoint(const ModelStore& store) {
  return store.gguf() == nullptr ? Checkpoint(store.path()) : gguf_checkpoint(*store.gguf());
}

void check_told(const ModelStore& store, const QuantizedWeights& quantized,
                const Checkpoint& files) {
  if (!quantized.is_known() || !quantized.description().empty()) return;
  const auto is_quantized = [](const auto& entry) {
    const auto& [name, tensor] = entry;
    return name.ends_with(".qweight") || name.ends_with(".weight_packed") ||
           name.ends_with("_blocks") ||
           (name.ends_with(".weight") &&
            (tensor.type.starts_with("F8_") || tensor.type == "I8" || tensor.type == "U8"));
  };
  const auto found = std::ranges::find_if(files.tensors(), is_quantized);
  if (found == files.tensors().end()) return;
  std::string way_out(kTakeAnother);
  for (const auto& [file, method] :
       {std::pair("quantize_config.json", "gptq"), {"quant_config.json", "awq"}}) {
    if (!store.has(file)) continue;
    way_out = fmt::format(
        "; {} is not read: put what it says into config.json as quantization_config, with "
        "\"quant_method\": \"{}\"",
        file, method);
  }
  throw Error(
      fmt::format("{}: {}{}", store.path_of("config.json"),
                  refusal("quantization_config", "",
                          fmt::format("how tensor '{}' is quantized", shortened(found->first))),
                  way_out));
}

DType dummy_type(const JsonObject& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::string name = config.find_string(key).value_or("");
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == name_of(type)) return type;
    }
  }
  const auto text = config.find_object("text_config");
  return text ? dummy_type(*text) : DType::kBF16;
}

}  // namespace pagedinfer
