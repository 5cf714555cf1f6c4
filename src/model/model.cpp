#include "model/model.h"

#include <utility>

#include "core/check.h"
#include "io/json_file.h"
#include "model/families.h"
#include "model/model_files.h"
#include "model/weights.h"

namespace pagedinfer {
namespace {

// The module that has a tensor of weights.
std::string module_of(std::string_view tensor) {
  constexpr std::string_view kWeight = ".weight";
  CHECK(tensor.ends_with(kWeight));
  return std::string(tensor.substr(0, tensor.size() - kWeight.size()));
}

// Of layers with experts: the modules that adapters cannot change, each with a point.
std::vector<std::string> fixed_modules(const ModelSpec& spec, const TensorNames& names) {
  std::vector<std::string> fixed;
  const auto add = [&](const std::string& tensor) {
    std::string parent = tensor.substr(0, tensor.rfind('.') + 1);
    if (fixed.empty() || fixed.back() != parent) fixed.push_back(std::move(parent));
  };
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_experts) continue;
    const LayerNames& layer = names.layers[i];
    add(layer.router);
    if (spec.experts.gates_shared) add(layer.shared_gate);
    if (names.expert_storage == ExpertStorage::kEach) continue;
    add(layer.experts.front().gate);
    add(layer.experts.front().down);
  }
  return fixed;
}

}  // namespace

OpenedModel open_model(const ModelStore& store, WeightSource source) {
  const JsonFile file = store.json("config.json");
  const JsonObject config = file.root();
  ModelSpec spec;
  std::vector<TensorNames> candidates;
  const ReadFamily read_family = find_family(config);
  QuantizedWeights quantized(config);
  refuse_unless_causal(config);
  read_family(config, spec, candidates);
  read_gguf_layout(config, spec);
  check_experts(config, spec);
  read_eos_tokens(config, spec);
  GenerationDefaults generation = read_generation(store, spec);
  if (source == WeightSource::kDummy) {
    TensorNames names = candidates.front();
    Checkpoint made_up(store.path_of("config.json"), dummy_type(config),
                       needed_tensors(spec, names));
    return {
        std::move(spec),      std::move(names), std::move(generation), std::move(made_up), {}, true,
        std::move(candidates)};
  }
  Checkpoint files = open_checkpoint(store);
  check_told(store, quantized, files);
  TensorNames names = choose_names(candidates, spec, files);
  tie_embeddings(files, names, spec);
  return {std::move(spec),      std::move(names),     std::move(generation),
          std::move(files),     std::move(quantized), false,
          std::move(candidates)};
}

std::vector<AdapterTargets> adapter_targets(const ModelSpec& spec, const TensorNames& used,
                                            std::span<const TensorNames> known) {
  using ModuleKind = AdaptedModule::Kind;
  const std::vector<Checkpoint::Declared> tensors = needed_matrices(spec, used);
  std::vector<AdapterTargets> all;
  for (const TensorNames& names : known) {
    if (names.expert_storage != used.expert_storage) continue;
    const std::vector<Checkpoint::Declared> called = needed_matrices(spec, names);
    std::vector<AdapterTarget> targets;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& [tensor, rows, cols] = tensors[i];
      const std::string& name = called[i].name;
      const ModuleKind kind = name == names.embedding ? ModuleKind::kEmbedding
                              : name == names.output  ? ModuleKind::kOutput
                                                      : ModuleKind::kLayer;
      targets.push_back({tensor, {module_of(name), kind}, rows, cols});
    }
    if (spec.tied_embeddings) {
      targets.front().is_tied = true;
      AdapterTarget output = targets.front();
      output.module = {module_of(names.output), ModuleKind::kOutput};
      targets.push_back(std::move(output));
    }
    all.push_back({std::move(targets), names.unused, fixed_modules(spec, names)});
  }
  return all;
}

void open_adapter(const std::string& dir, OpenedModel& model) {
  model.adapter.emplace(dir, adapter_targets(model.spec, model.names, model.known_names));
}

}  // namespace pagedinfer
