#include "model/model.h"

#include "core/error.h"
#include "io/json_file.h"
#include "io/open_file.h"
#include "model/families.h"
#include "model/weights.h"

namespace pagedinfer {
namespace {

// The first of the candidates whose embedding or output the checkpoint has.
TensorNames choose_names(const std::vector<TensorNames>& candidates, const Checkpoint& files) {
  for (const TensorNames& names : candidates) {
    if (files.contains(names.embedding) || files.contains(names.output)) return names;
  }
  return candidates.front();
}

// Decides as transformers does which tensors a model with tied embeddings uses: a stored output
// that differs from the embedding is used as it is, and an output without an embedding serves as
// both.
void tie_embeddings(const Checkpoint& files, TensorNames& names, ModelSpec& spec) {
  if (!spec.tied_embeddings || !files.contains(names.output)) return;
  if (!files.contains(names.embedding)) {
    names.embedding = names.output;
  } else {
    spec.tied_embeddings = files.same(names.embedding, names.output);
  }
}

// The type of dummy weights: the one that config.json names, else bfloat16.
DType dummy_type(const JsonObject& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::string name = config.find_string(key).value_or("");
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == name_of(type)) return type;
    }
  }
  return DType::kBF16;
}

}  // namespace

OpenedModel open_model(const std::string& dir, WeightSource source) {
  const JsonFile file(dir + "/config.json");
  const JsonObject config = file.root();
  ModelSpec spec;
  std::vector<TensorNames> candidates;
  if (config.has("quantization_config")) {
    config.fail("quantization_config", "is there, and quantized checkpoints are not supported");
  }
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (config.find_integer(key, 0, INT64_MAX).value_or(0) > 0) {
      config.fail(key, "is there, and experts are not supported");
    }
  }
  refuse_unless_causal(config);
  find_family(config)(config, spec, candidates);
  read_eos_tokens(config, spec);

  GenerationDefaults generation;
  if (const std::string path = dir + "/generation_config.json"; file_exists(path)) {
    const JsonFile generation_file(path);
    read_eos_tokens(generation_file.root(), spec);
    generation = read_generation_config(generation_file.root(), spec);
  }
  if (source == WeightSource::kDummy) {
    TensorNames& names = candidates.front();
    Checkpoint made_up(dir + "/config.json", dummy_type(config), needed_tensors(spec, names));
    return {std::move(spec), std::move(names), std::move(generation), std::move(made_up), true};
  }
  Checkpoint files(dir);
  TensorNames names = choose_names(candidates, files);
  tie_embeddings(files, names, spec);
  return {std::move(spec), std::move(names), std::move(generation), std::move(files)};
}

}  // namespace pagedinfer
