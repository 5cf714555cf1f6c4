#include "model/model.h"

#include <utility>

#include "io/json_file.h"
#include "model/families.h"
#include "model/model_files.h"
#include "model/weights.h"

namespace pagedinfer {

OpenedModel open_model(const std::string& dir, WeightSource source) {
  const JsonFile file(dir + "/config.json");
  const JsonObject config = file.root();
  ModelSpec spec;
  std::vector<TensorNames> candidates;
  const ReadFamily read_family = find_family(config);
  QuantizedWeights quantized(config);
  check_supported(config);
  read_family(config, spec, candidates);
  read_eos_tokens(config, spec);
  GenerationDefaults generation = read_generation(dir, spec);
  if (source == WeightSource::kDummy) {
    TensorNames& names = candidates.front();
    Checkpoint made_up(dir + "/config.json", dummy_type(config), needed_tensors(spec, names));
    return {std::move(spec), std::move(names), std::move(generation), std::move(made_up), {}, true};
  }
  Checkpoint files(dir);
  TensorNames names = choose_names(candidates, files);
  tie_embeddings(files, names, spec);
  return {std::move(spec), std::move(names), std::move(generation), std::move(files),
          std::move(quantized)};
}

}  // namespace pagedinfer
