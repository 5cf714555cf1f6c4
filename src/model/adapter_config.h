#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_file.h"
#include "io/name_pattern.h"
#include "model/adapter.h"

namespace pagedinfer {

// What to do with an adapter that cannot be merged, as the end of a message.
constexpr std::string_view kMergeElsewhere =
    "; merge the adapter with merge_and_unload of peft and give the merged model";

// The settings of a LoRA adapter in adapter_config.json: which modules it changes, and how. Follows
// PEFT's rules and refuses unsupported settings.
class AdapterConfig {
 public:
  // Complains of each field that is not supported or cannot be read. Throws Error if the adapter is
  // of another kind. (The other functions throw Error for a pattern that takes too long.)
  // REQUIRES: the file outlives it.
  explicit AdapterConfig(const JsonObject& config);

  // False if a field that says which modules are changed, or how, cannot be read. In that case do
  // not call the functions below.
  bool is_known() const { return is_known_; }

  bool changes(const AdaptedModule& module) const;
  // The same for a parameter, "model.layers.0.mlp.experts.gate_up_proj". Here and below a
  // parameter's name stands where a module's does.
  bool changes_parameter(std::string_view parameter) const;
  int64_t rank_of(std::string_view module) const;
  // The factor of the product of the module's two matrices.
  float scale_of(std::string_view module) const;
  // Complains if the adapter is of a version of PEFT that takes the outputs of stacks for inputs.
  void refuse_turned_stacks() const;
  // Complains of each target that names none of the modules, or of the parameters.
  void check_targets(const std::vector<AdaptedModule>& modules,
                     const std::vector<std::string>& parameters) const;

 private:
  // Modules by their names, ends of names, or a pattern.
  struct Names {
    std::string_view key = {};  // of the field
    std::vector<std::string> listed = {};
    std::optional<NamePattern> pattern = {};
    bool is_all_linear = false;
  };
  // The number of the first pattern that the name or an end of it matches.
  template <class T>
  using Patterns = std::vector<std::pair<NamePattern, T>>;

  // Calls `step`, which reads a field.
  template <class Step>
  void read(const Step& step) {
    is_known_ = config_.keep(step) && is_known_;
  }
  template <class T>
  void read_patterns(std::string_view key, T (*read_one)(const JsonObject&, std::string_view),
                     Patterns<T>& patterns);
  Names read_names(std::string_view key) const;
  void read_layers();
  void refuse_variants();
  bool matches(std::string_view key, const NamePattern& pattern, std::string_view module) const;
  bool has(const Names& names, const AdaptedModule& module) const;
  bool is_in_layers(std::string_view module) const;

  JsonObject config_;
  bool is_known_ = true;
  int64_t rank_ = 0;
  double alpha_ = 0;
  bool is_rank_stabilized_ = false;
  Names targets_ = {}, excluded_ = {};
  std::vector<std::string> parameters_ = {};  // names, or ends of names
  std::vector<int64_t> layers_ = {};          // empty: all
  std::vector<std::string> layer_lists_ = {};
  Patterns<int64_t> ranks_ = {};
  Patterns<double> alphas_ = {};
};

}  // namespace pagedinfer
