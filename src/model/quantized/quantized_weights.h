#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "io/safetensors.h"
#include "model/quantized/method.h"
#include "ops/row_source.h"

namespace pagedinfer {

// The matrices that a checkpoint has in few bits, as numbers of its "quantization_config" in
// config.json says. What is quantized there is for the checkpoint to say; how, for config.json.
class QuantizedWeights {
 public:
  QuantizedWeights() = default;  // there are none
  // Complains of what is not supported.
  explicit QuantizedWeights(const JsonObject& config);

  // "gptq, 4 bits, groups of 128"; "" if config.json speaks of no quantization.
  const std::string& description() const { return form_.description; }
  // What of it is not done.
  const std::vector<std::string>& notes() const { return form_.notes; }
  // False if config.json asks for what is not supported: then nothing below is known.
  bool is_known() const { return is_known_; }

  // Whether the checkpoint has the matrix quantized, if it has it. `name` is that of the matrix if
  // it were not ("model.layers.0.mlp.up_proj.weight"), here and below.
  bool has(const Checkpoint& files, const std::string& name) const;
  // A matrix that has() is true of. Throws Error if tensors of it are missing or are not what is
  // expected. The files must outlive the source.
  RowSource open(const Checkpoint& files, const std::string& name, int64_t rows,
                 int64_t cols) const;
  // All tensors of the matrix will be read, or not be read any more (Checkpoint::give_back()).
  void read_ahead(const Checkpoint& files, const std::string& name) const;
  void give_back(const Checkpoint& files, const std::string& name) const;

 private:
  StoredForm form_ = {};
  bool is_known_ = true;
};

}  // namespace pagedinfer
