// The steps in which a model directory is opened, each of which may fail on its own.
#pragma once

#include <string>
#include <vector>

#include "io/json_file.h"
#include "io/model_store.h"
#include "io/safetensors.h"
#include "model/generation_config.h"
#include "model/model.h"
#include "model/quantized/quantized_weights.h"
#include "model/spec.h"

namespace pagedinfer {

// Complains if config.json asks for experts and the family, whose spec is read, has none.
void check_experts(const JsonObject& config, const ModelSpec& spec);

// Reads how the tensors of a GGUF file differ from those of transformers, after the family.
void read_gguf_layout(const JsonObject& config, ModelSpec& spec);

// Reads generation_config.json, if there is one, into the defaults and the spec. REQUIRES: the
// vocabulary and the ends of config.json are set in the spec. Throws Error; unless `problems` is
// null, errors of single fields are added there instead.
GenerationDefaults read_generation(const ModelStore& store, ModelSpec& spec,
                                   Problems* problems = nullptr);

// The candidate of whose tensors the checkpoint has most, plain or quantized; the first one of
// several. REQUIRES: there is a candidate.
TensorNames choose_names(const std::vector<TensorNames>& candidates, const ModelSpec& spec,
                         const Checkpoint& files, const QuantizedWeights& quantized);

// Decides as transformers does which tensors a model with tied embeddings uses: a stored output
// that differs from the embedding is used as it is, and an output without an embedding serves as
// both.
void tie_embeddings(const Checkpoint& files, TensorNames& names, ModelSpec& spec);

// The tensors of the model, by the names that a folder has.
Checkpoint open_checkpoint(const ModelStore& store);

// Throws Error if matrices of the checkpoint are quantized and config.json does not say how.
void check_told(const ModelStore& store, const QuantizedWeights& quantized,
                const Checkpoint& files);

// The type of made-up weights: the one that config.json or its text_config names, else bfloat16.
DType dummy_type(const JsonObject& config);

}  // namespace pagedinfer
