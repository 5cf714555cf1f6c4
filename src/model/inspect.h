// What the files of a model directory say, whether the model is supported or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/problems.h"
#include "model/adapter.h"
#include "model/generation_config.h"
#include "model/model.h"
#include "model/spec.h"

namespace pagedinfer {

// The tensors of one type.
struct TensorTotal {
  std::string type = {};  // as safetensors calls it: "BF16"
  int64_t num_tensors = 0, parameters = 0, bytes = 0;
};

struct InspectedModel {
  std::string architecture = {}, model_type = {};  // of config.json; "" = it does not say
  // As far as they could be read: sizes that are not known are 0, and windows that are not known
  // negative.
  ModelSpec spec = {};
  std::optional<bool> tied_embeddings = {};  // nullopt if that is not known
  GenerationDefaults generation = {};

  // How the checkpoint's matrices are quantized, and how many of them; "" if they are not.
  std::string quantization = {};
  std::vector<std::string> quantization_notes = {};  // what of it is not done
  std::optional<DType> dtype = {};                   // the checkpoint's, if that is known

  // Of the tensors that the model needs; 0 if that is not known.
  int64_t parameters = 0;
  // Of the checkpoint, or of the weights that would be made up.
  std::vector<TensorTotal> stored = {};  // the largest first
  int num_files = 0;

  std::optional<Adapter> adapter = {};  // nullopt: there is none, or it does not fit the model
};

// Reads what open_model() reads and, unless `lora` is "", what open_adapter() does. Why it would
// refuse goes into `problems`, all of it; nothing is thrown but for lack of memory. Of fields that
// contradict each other or cannot be read, what they would say is not known.
InspectedModel inspect_model(const std::string& dir, WeightSource source, Problems& problems,
                             const std::string& lora = "");

}  // namespace pagedinfer
