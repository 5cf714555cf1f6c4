#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/model_store.h"
#include "io/safetensors.h"
#include "model/adapter.h"
#include "model/generation_config.h"
#include "model/quantized/quantized_weights.h"
#include "model/spec.h"

namespace pagedinfer {

// The names of an expert's tensors.
struct ExpertNames {
  std::string gate, up, down;
  std::string gate_bias = {}, up_bias = {}, down_bias = {};  // read only if the spec asks for them
};

// How a checkpoint has the matrices of experts.
// kEach: a tensor each. The others: gate and up of all experts are one tensor, and down another;
// LayerNames::experts has one entry.
// kStackedRows: as matrices one below the other, the rows of gate before those of up.
// kStackedColumns: turned, so that an output is a column; the columns of gate come before those of
// up. kInterleavedColumns: they alternate, and so do the numbers of the biases.
enum class ExpertStorage : uint8_t { kEach, kStackedRows, kStackedColumns, kInterleavedColumns };

// The names of a layer's tensors in the checkpoint.
struct LayerNames {
  // If q, k and v, or gate and up, have the same name, they are the rows of one tensor, in this
  // order.
  std::string q, k, v, attention_out, gate, up, down;
  // Read only if the spec asks for them.
  std::string attention_norm = {}, mlp_norm = {}, attention_out_norm = {}, mlp_out_norm = {};
  std::string q_norm = {}, k_norm = {};
  std::string q_bias = {}, k_bias = {}, v_bias = {}, attention_out_bias = {};
  std::string sinks = {};
  std::string gate_bias = {}, up_bias = {}, down_bias = {};
  // Of a layer with experts, in place of gate, up and down.
  std::string router = {}, router_bias = {}, shared_gate = {};
  std::vector<ExpertNames> experts = {};
  // The module that has the experts as transformers has them in memory, gate before up, or the two
  // alternating if the checkpoint has them so. Empty: adapters do not find them by it.
  std::string expert_module = {};
  ExpertNames shared = {};
};

struct TensorNames {
  std::string embedding, final_norm;
  std::string output;  // not read if embeddings are tied
  std::vector<LayerNames> layers = {};
  ExpertStorage expert_storage = ExpertStorage::kEach;
  // The prefixes of modules that a checkpoint may have and that are not run.
  std::vector<std::string> unused = {};
};

// A model whose configuration is read. Of the weights only the headers are read.
struct OpenedModel {
  ModelSpec spec;
  TensorNames names;
  GenerationDefaults generation;
  Checkpoint checkpoint;
  QuantizedWeights quantized = {};
  std::vector<std::string> weight_notes = {};  // parts of the checkpoint that have no effect here
  bool is_dummy = false;  // the checkpoint has shapes only; load_weights() fills them
  // All names that checkpoints of this family may use.
  std::vector<TensorNames> known_names = {};
  std::optional<Adapter> adapter = {};  // load_weights() merges it
};

// kDummy: pseudo-random weights of the type and the shapes that config.json gives.
enum class WeightSource : uint8_t { kFiles, kDummy };

// Reads config.json, generation_config.json (if there) and the headers of the checkpoint. Throws
// Error, naming the file and the field, for a model that is not supported.
OpenedModel open_model(const ModelStore& store, WeightSource source = WeightSource::kFiles);

// Opens the LoRA adapter in `dir` for the model. Throws Error, naming the file and what in it is
// not supported or does not fit the model.
void open_adapter(const std::string& dir, OpenedModel& model);

// The matrices that an adapter may change in a model whose checkpoint has the names `used`: one
// entry for each of the known names, which the adapter may use instead.
std::vector<AdapterTargets> adapter_targets(const ModelSpec& spec, const TensorNames& used,
                                            std::span<const TensorNames> known);

}  // namespace pagedinfer
