#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "io/safetensors.h"
#include "ops/low_rank.h"

namespace pagedinfer {

class AdapterConfig;
class JsonObject;

// A module of a model, as adapters call it: a matrix of weights.
struct AdaptedModule {
  // kRouter: it chooses or weighs experts. kExpert: of an expert that has tensors of its own.
  enum class Kind : uint8_t { kLayer, kRouter, kExpert, kEmbedding, kOutput };
  std::string name = {};  // "model.layers.0.mlp.up_proj"
  Kind kind = Kind::kLayer;
};

// The files of an adapter.
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

// Adds to `problems` the settings of adapter_config.json in `dir` that are supported in no model.
void check_adapter_config(const std::string& dir, Problems& problems);

// A parameter of a module that has a matrix of each expert: what transformers has in memory in
// place of the experts' own modules.
struct ExpertStack {
  std::string module = {}, parameter = {};  // "model.layers.0.mlp.experts", "gate_up_proj"
  int64_t experts = 1;
  int64_t rows = 0;   // of each expert's matrix
  int64_t first = 0;  // the stack's row, of all experts' rows, that is row 0 of a target's tensor

  std::string name() const { return module + "." + parameter; }
};

// A matrix of a model that an adapter may change.
struct AdapterTarget {
  std::string tensor = {};    // its name in the checkpoint
  AdaptedModule module = {};  // its name in adapters; empty: it has that of its stack alone
  int64_t rows = 0, cols = 0;
  std::optional<ExpertStack> stack = {};
  bool is_tied = false;  // the embedding and the output are one matrix
};

// The modules of a model under the names that adapters may give them.
struct AdapterTargets {
  std::vector<AdapterTarget> matrices = {};
  // What the names of modules begin with that no adapter may change.
  std::vector<std::string> unused = {};  // TensorNames::unused
  std::vector<std::string> fixed = {};   // experts that have no tensors of their own
};

// A LoRA adapter as PEFT saves it, matched with the matrices of a model.
class Adapter {
 public:
  // Reads adapter_config.json and the header of adapter_model.safetensors in `dir`, or in the
  // snapshot of a hub cache folder. `targets` has one entry for each way in which adapters may name
  // the model's modules. Throws Error, naming the file and the field or the tensor, unless every
  // entry of target_modules is a matrix of the model and every tensor belongs to one. Given
  // `problems`, adds the errors there instead, as far as the files can be read. REQUIRES: `targets`
  // is not empty.
  Adapter(const std::string& dir, std::span<const AdapterTargets> targets,
          Problems* problems = nullptr);

  // Whether it changes a tensor of the checkpoint.
  bool changes(std::string_view tensor) const { return changes_.contains(tensor); }
  // The update to add to `rows` rows of the tensor, `step` apart from first_row on. In a tensor of
  // many experts they are of one expert. Its tensors are views, valid while the adapter lives.
  // REQUIRES: changes(tensor).
  LowRank update_of(std::string_view tensor, int64_t first_row, int64_t rows,
                    int64_t step = 1) const;
  // The embedding or output that PEFT saved with the adapter, to take the place of the
  // checkpoint's; empty for all other tensors. REQUIRES: changes(tensor).
  Tensor replacement_of(std::string_view tensor) const;

  // The adapter's tensors for this one are not read again (Checkpoint::give_back()).
  // REQUIRES: changes(tensor).
  void give_back(std::string_view tensor) const;

  // The files that it was read from.
  const std::string& config_path() const { return config_path_; }
  const std::string& weights_path() const { return weights_file().path(); }
  const MappedFile& weights_file() const { return file_.files().front(); }

  int64_t num_matrices() const { return std::ssize(changes_); }
  int64_t num_parameters() const;
  // The smallest and the largest of its matrices. REQUIRES: there are some.
  std::pair<int64_t, int64_t> ranks() const;

 private:
  struct Change {
    std::string a = {}, b = {}, replacement = {};  // tensors of the file; "": there is none
    bool is_turned = false;                        // a is (rank, rows) and b (cols, rank)
    int64_t rank = 0, rows = 0, cols = 0;
    float scale = 1.0f;
    // Of a stack: a is (experts * rank, ...); of b a row has `experts` numbers for each of the
    // rank.
    int64_t experts = 1, first = 0;
    int64_t tensor_rows = rows;
  };

  std::optional<Change> find_change(const AdapterTarget& target, const AdapterConfig& config,
                                    bool has_experts) const;
  Change change_of(const AdapterTarget& target, const std::string& name,
                   const AdapterConfig& config) const;
  Change change_of_stack(const AdapterTarget& target, const AdapterConfig& config) const;
  void check(const Change& change) const;
  std::set<std::string_view> refuse_parts(const AdapterTargets& targets, const JsonObject& config,
                                          std::vector<AdaptedModule>& modules) const;
  std::set<std::string_view> used_tensors() const;
  std::vector<std::string> stray_tensors(std::set<std::string_view> known) const;
  const Change& change_of(std::string_view tensor) const;

  std::string dir_, config_path_;
  Checkpoint file_;
  std::map<std::string, Change, std::less<>> changes_ = {};  // by the tensor of the checkpoint
};

}  // namespace pagedinfer
