// The methods of quantization whose checkpoints can be read, each in a file of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "io/safetensors.h"
#include "ops/code_source.h"
#include "ops/row_source.h"

namespace pagedinfer {

class JsonObject;

struct MatrixSize {
  int64_t rows, cols;
  int64_t stacked = 0;  // matrices that are stored one below the other; 0: it is no stack
};

// How the matrices of a checkpoint are stored. A matrix is a module with the name M, whose tensors
// are M.weight, or M.NAME for the names in `parts`. Its rows are outputs, whatever they are in a
// checkpoint that is not quantized.
struct StoredForm {
  std::string description = {};         // "gptq, 4 bits, groups of 128"
  std::vector<std::string> notes = {};  // parts of the method that have no effect here
  std::vector<std::string_view> parts = {};
  // The type to compute in, where no matrix of the checkpoint tells it.
  std::optional<DType> compute = {};
  // The name of the part with the numbers, if it is always the same.
  std::string_view codes = {};
  char joint = '.';  // between M and NAME
  // Opens a matrix. Throws Error, naming the tensor, if one is missing or is not what the form
  // says. The files must outlive the source.
  std::function<RowSource(const Checkpoint& files, const std::string& module, MatrixSize size)>
      open = {};
  // The same as codes of 4 bits, in the checkpoint's own; nullopt: products cannot keep them.
  // Empty: no matrix of this form has any.
  std::function<std::optional<CodeSource>(const Checkpoint& files, const std::string& module,
                                          MatrixSize size)>
      open_codes = {};
};

// Each reads the object "quantization_config" and complains of settings that are not supported. Do
// not use its result after a complaint.
StoredForm read_fp8(const JsonObject& config);
StoredForm read_compressed_tensors(const JsonObject& config);
StoredForm read_gptq(const JsonObject& config);
StoredForm read_awq(const JsonObject& config);
StoredForm read_mxfp4(const JsonObject& config);
StoredForm read_gguf(const JsonObject& config);

// What to do with a checkpoint that cannot be read, as the end of a message.
constexpr std::string_view kTakeAnother =
    "; take the checkpoint that is not quantized (--quantize int8 makes its weights int8), or one "
    "of "
    "fp8, compressed-tensors, gptq, awq or mxfp4";

}  // namespace pagedinfer
