#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/quantized/method.h"
#include "ops/row_source.h"

namespace pagedinfer {

class JsonObject;

// The quantized matrices of a checkpoint. The tensors of the checkpoint decide which matrices are
// quantized; "quantization_config" in config.json decides how.
class QuantizedWeights {
 public:
  QuantizedWeights() = default;  // there are none
  // Complains of what is not supported.
  explicit QuantizedWeights(const JsonObject& config);

  // "gptq, 4 bits, groups of 128"; "" if config.json speaks of no quantization.
  const std::string& description() const { return form_.description; }
  // Its parts that have no effect here.
  const std::vector<std::string>& notes() const { return form_.notes; }
  // The type to compute in if all matrices are quantized; nullopt: the method does not say.
  std::optional<DType> compute() const { return form_.compute; }
  // False if config.json asks for something unsupported. In that case do not call the functions
  // below.
  bool is_known() const { return is_known_; }

  // Whether the matrix is quantized, if the checkpoint has it. Here and below, `name` is its name
  // in an unquantized checkpoint ("model.layers.0.mlp.up_proj.weight").
  bool has(const Checkpoint& files, const std::string& name) const;
  // The beginning that the names of all tensors of a quantized matrix share.
  std::string begin_of_parts(const std::string& name) const;
  // Opens a quantized matrix. Throws Error if one of its tensors is missing or not as expected. The
  // files must outlive the source. REQUIRES: has() is true.
  RowSource open(const Checkpoint& files, const std::string& name, MatrixSize size) const;
  // The same as codes of 4 bits; nullopt: it has none that products can keep.
  std::optional<CodeSource> open_codes(const Checkpoint& files, const std::string& name,
                                       MatrixSize size) const;
  // Whether matrices may be codes of 4 bits.
  bool has_codes() const { return form_.open_codes != nullptr; }
  // Says that all tensors of the matrix will be read, or that they will not be read again
  // (Checkpoint::give_back()).
  void read_ahead(const Checkpoint& files, const std::string& name) const;
  void give_back(const Checkpoint& files, const std::string& name) const;

 private:
  StoredForm form_ = {};
  bool is_known_ = true;
};

}  // namespace pagedinfer
