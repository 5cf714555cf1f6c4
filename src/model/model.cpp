#include "model/model.h"

#include <map>
#include <utility>

#include "core/check.h"
#include "io/json_file.h"
#include "model/families.h"
#include "model/model_files.h"
#include "model/needed_tensors.h"
#include "model/unused_tensors.h"

namespace pagedinfer {
namespace {

// The module that has a tensor of weights.
std::string module_of(std::string_view tensor) {
  constexpr std::string_view kWeight = ".weight";
  CHECK(tensor.ends_with(kWeight));
  return std::string(tensor.substr(0, tensor.size() - kWeight.size()));
}

// What the names of the modules of stacked experts begin with.
std::vector<std::string> stacked_modules(const TensorNames& names) {
  std::vector<std::string> modules;
  if (names.expert_storage == ExpertStorage::kEach) return modules;
  for (const LayerNames& layer : names.layers) {
    if (layer.experts.empty()) continue;
    for (const std::string& tensor : {layer.experts.front().gate, layer.experts.front().down}) {
      std::string parent = tensor.substr(0, tensor.rfind('.') + 1);
      if (modules.empty() || modules.back() != parent) modules.push_back(std::move(parent));
    }
  }
  return modules;
}

// By the names of tensors. All others are kLayer.
std::map<std::string_view, AdaptedModule::Kind> kinds_of(const TensorNames& names) {
  using enum AdaptedModule::Kind;
  std::map<std::string_view, AdaptedModule::Kind> kinds = {{names.embedding, kEmbedding},
                                                           {names.output, kOutput}};
  for (const LayerNames& layer : names.layers) {
    kinds.insert({{layer.router, kRouter}, {layer.shared_gate, kRouter}});
    for (const ExpertNames& expert : layer.experts) {
      kinds.insert({{expert.gate, kExpert}, {expert.up, kExpert}, {expert.down, kExpert}});
    }
  }
  return kinds;
}

// By the tensors `used` that have the matrices of experts; the modules have the names of `names`.
std::map<std::string_view, ExpertStack> stacks_of(const ModelSpec& spec, const TensorNames& used,
                                                  const TensorNames& names) {
  std::map<std::string_view, ExpertStack> stacks;
  const int64_t width = spec.experts.width;
  for (size_t l = 0; l < used.layers.size(); ++l) {
    const std::string& module = names.layers[l].expert_module;
    for (int64_t e = 0; !module.empty() && e < std::ssize(used.layers[l].experts); ++e) {
      const ExpertNames& expert = used.layers[l].experts[static_cast<size_t>(e)];
      const auto add = [&](const std::string& tensor, const char* parameter, int64_t rows,
                           int64_t first) {
        stacks.emplace(tensor, ExpertStack{module, parameter, spec.experts.count, rows, first});
      };
      add(expert.gate, "gate_up_proj", 2 * width, e * 2 * width);
      add(expert.up, "gate_up_proj", 2 * width, e * 2 * width + width);
      add(expert.down, "down_proj", spec.hidden, e * spec.hidden);
    }
  }
  return stacks;
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
    return {.spec = std::move(spec),
            .names = std::move(names),
            .generation = std::move(generation),
            .checkpoint = std::move(made_up),
            .is_dummy = true,
            .known_names = std::move(candidates)};
  }
  Checkpoint files = open_checkpoint(store);
  check_told(store, quantized, files);
  TensorNames names = choose_names(candidates, spec, files, quantized);
  tie_embeddings(files, names, spec);
  std::vector<std::string> notes =
      weight_notes(files, names, needed_tensors(spec, names, files, quantized), quantized);
  return {.spec = std::move(spec),
          .names = std::move(names),
          .generation = std::move(generation),
          .checkpoint = std::move(files),
          .quantized = std::move(quantized),
          .weight_notes = std::move(notes),
          .known_names = std::move(candidates)};
}

std::vector<AdapterTargets> adapter_targets(const ModelSpec& spec, const TensorNames& used,
                                            std::span<const TensorNames> known) {
  const std::vector<Checkpoint::Declared> tensors = needed_matrices(spec, used);
  std::vector<AdapterTargets> all;
  for (const TensorNames& names : known) {
    if (names.expert_storage != used.expert_storage) continue;
    const std::vector<Checkpoint::Declared> called = needed_matrices(spec, names);
    const auto kinds = kinds_of(names);
    const auto stacks = stacks_of(spec, used, names);
    std::vector<AdapterTarget> targets;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Checkpoint::Declared& matrix = tensors[i];
      const std::string& name = called[i].name;
      const auto kind = kinds.find(name);
      targets.push_back(
          {matrix.name,
           {module_of(name), kind == kinds.end() ? AdaptedModule::Kind::kLayer : kind->second},
           matrix.rows,
           matrix.cols});
      const auto stack = stacks.find(matrix.name);
      if (stack != stacks.end()) targets.back().stack = stack->second;
    }
    for (const auto& [tensor, stack] : stacks) {
      if (used.expert_storage == ExpertStorage::kEach) break;
      AdapterTarget& target = targets.emplace_back();
      target.tensor = tensor;
      target.rows = stack.experts * stack.rows;
      target.cols = stack.parameter == "down_proj" ? spec.experts.width : spec.hidden;
      target.stack = stack;
    }
    if (spec.tied_embeddings) {
      targets.front().is_tied = true;
      AdapterTarget output = targets.front();
      output.module = {module_of(names.output), AdaptedModule::Kind::kOutput};
      targets.push_back(std::move(output));
    }
    all.push_back({std::move(targets), names.unused, stacked_modules(names)});
  }
  return all;
}

void open_adapter(const std::string& dir, OpenedModel& model) {
  model.adapter.emplace(dir, adapter_targets(model.spec, model.names, model.known_names));
}

}  // namespace pagedinfer
