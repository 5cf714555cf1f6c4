// Describes the model of a directory, whether it is supported or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/problems.h"
#include "model/adapter.h"
#include "model/generation_config.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/spec.h"

namespace pagedinfer {

// The tensors of one type.
struct TensorTotal {
  std::string type = {};  // as safetensors calls it: "BF16"
  int64_t num_tensors = 0, parameters = 0, bytes = 0;
};

struct InspectedModel {
  std::string architecture = {}, model_type = {};  // of config.json; "" = it does not say
  // Has the values that could be read. A size that is not known is 0, such a window negative.
  ModelSpec spec = {};
  std::optional<bool> tied_embeddings = {};  // nullopt if that is not known
  GenerationDefaults generation = {};

  // How the checkpoint's matrices are quantized, and how many of them; "" if they are not.
  std::string quantization = {};
  bool has_codes = false;                      // QuantizedWeights::has_codes()
  std::vector<std::string> weight_notes = {};  // parts of the checkpoint that have no effect here
  std::optional<DType> dtype = {};             // the checkpoint's, if that is known

  Parameters parameters = {};  // 0 if that is not known
  // Of the checkpoint, or of the weights that would be made up.
  std::vector<TensorTotal> stored = {};  // the largest first
  int num_files = 0;

  std::optional<Adapter> adapter = {};  // nullopt: there is none, or it does not fit the model
  int64_t num_merged = 0;               // quantized matrices that it changes
};

// Reads the same files as open_model() and, unless `lora` is "", open_adapter(). Adds every reason
// to refuse the model to `problems`; throws only for lack of memory. If fields contradict each
// other or cannot be read, the values that they determine are not known.
InspectedModel inspect_model(const ModelStore& store, WeightSource source, Problems& problems,
                             const std::string& lora = "");

}  // namespace pagedinfer
