#include "model/model_files.h"

#include <cstdint>

#include "io/open_file.h"
#include "model/families.h"

namespace pagedinfer {

void check_supported(const JsonObject& config) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    config.keep([&] {
      if (config.find_integer(key, 0, INT64_MAX).value_or(0) == 0) return;
      config.complain(key, "is there, and experts are not supported");
    });
  }
  refuse_unless_causal(config);
}

GenerationDefaults read_generation(const std::string& dir, ModelSpec& spec, Problems* problems) {
  const std::string path = dir + "/generation_config.json";
  if (!file_exists(path)) return {};
  const JsonFile file(path, problems);
  read_eos_tokens(file.root(), spec);
  return read_generation_config(file.root(), spec);
}

TensorNames choose_names(const std::vector<TensorNames>& candidates, const Checkpoint& files) {
  for (const TensorNames& names : candidates) {
    if (files.contains(names.embedding) || files.contains(names.output)) return names;
  }
  return candidates.front();
}

void tie_embeddings(const Checkpoint& files, TensorNames& names, ModelSpec& spec) {
  if (!spec.tied_embeddings || !files.contains(names.output)) return;
  if (!files.contains(names.embedding)) {
    names.embedding = names.output;
  } else {
    spec.tied_embeddings = files.same(names.embedding, names.output);
  }
}

DType dummy_type(const JsonObject& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::string name = config.find_string(key).value_or("");
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == name_of(type)) return type;
    }
  }
  return DType::kBF16;
}

}  // namespace pagedinfer
