#include "model/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "io/model_folder.h"
#include "io/open_file.h"
#include "model/adapter_config.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kRoot = "base_model.model.";  // PEFT's name of the model

constexpr std::string_view kDownStack = "down_proj";

// Whether a module is its one parameter, which has another name in adapters of parameters.
bool is_parameter(const AdaptedModule& module) {
  return !module.name.empty() && (module.kind == AdaptedModule::Kind::kLayer ||
                                  module.kind == AdaptedModule::Kind::kRouter);
}
std::string parameter_of(const AdaptedModule& module) { return module.name + ".weight"; }

// What the names of a module's tensors begin with.
std::string prefix_of(const AdaptedModule& module) {
  return fmt::format("{}{}.", kRoot, module.name);
}

std::string config_in(const std::string& dir) { return fmt::format("{}/{}", dir, kAdapterConfig); }

std::string folder_of(const std::string& dir) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(dir, ignored)) {
    throw Error(
        fmt::format("{}: no such folder; expected that of a LoRA adapter (none is downloaded)",
                    shortened(dir)));
  }
  if (file_exists(config_in(dir))) return dir;
  const std::string snapshot = find_snapshot(dir);
  return snapshot.empty() ? dir : snapshot;
}

std::string weights_in(const std::string& dir) {
  const std::string path = fmt::format("{}/{}", dir, kAdapterWeights);
  if (file_exists(path)) return path;
  const bool has_pickle = file_exists(dir + "/adapter_model.bin");
  throw Error(fmt::format("{}: has no {}{}", dir, kAdapterWeights,
                          has_pickle ? "; it holds adapter_model.bin, PyTorch's own format, which "
                                       "is not read: load and save the adapter with peft"
                                     : ""));
}

// The tensors whose names begin with the prefix.
std::vector<std::string_view> tensors_below(const Checkpoint& file, const std::string& prefix) {
  std::vector<std::string_view> names;
  for (auto at = file.tensors().lower_bound(prefix);
       at != file.tensors().end() && at->first.starts_with(prefix); ++at) {
    names.push_back(at->first);
  }
  return names;
}

bool has_any_of(const Checkpoint& file, const AdapterTargets& targets) {
  const auto has_part = [&](const std::string& part) {
    return !tensors_below(file, fmt::format("{}{}", kRoot, part)).empty();
  };
  const auto has_target = [&](const AdapterTarget& target) {
    return (!target.module.name.empty() && has_part(target.module.name + ".")) ||
           (target.stack && has_part(target.stack->module + "."));
  };
  return std::ranges::any_of(targets.matrices, has_target) ||
         std::ranges::any_of(targets.unused, has_part) ||
         std::ranges::any_of(targets.fixed, has_part);
}

// "a.b" of "base_model.model.a.b.lora_A.weight".
std::string adapted_module(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.find(".lora_")).substr(kRoot.size()));
}

// Complains of the first few of these messages about tensors of the file.
void complain_of(std::vector<std::string> messages, const std::string& path,
                 const JsonObject& config) {
  const std::string others = fmt::format("{}: more tensors that are wrong", path);
  for (const std::string& message : first_few(std::move(messages), others)) {
    config.keep([&] { throw Error(message); });
  }
}

}  // namespace

void check_adapter_config(const std::string& dir, Problems& problems) {
  problems.keep([&] {
    const JsonFile json(config_in(folder_of(dir)), &problems);
    const AdapterConfig config(json.root());
  });
}

Adapter::Adapter(const std::string& dir, std::span<const AdapterTargets> targets,
                 Problems* problems)
    : dir_(folder_of(dir)),
      config_path_(config_in(dir_)),
      file_(Checkpoint::of_file(weights_in(dir_))) {
  const JsonFile json(config_path_, problems);
  const JsonObject root = json.root();
  const AdapterConfig config(root);
  if (!config.is_known()) return;
  const auto named = std::ranges::find_if(
      targets, [&](const AdapterTargets& all) { return has_any_of(file_, all); });
  const AdapterTargets& known = named == targets.end() ? targets.front() : *named;
  // The name of a target may be meant for a shared expert alone: in newer versions of transformers
  // the others are no modules.
  const bool has_experts = std::ranges::any_of(known.matrices, [&](const AdapterTarget& target) {
    return target.module.kind == AdaptedModule::Kind::kExpert &&
           !tensors_below(file_, prefix_of(target.module)).empty();
  });
  std::vector<AdaptedModule> modules;
  std::vector<std::string> parameters;
  for (const AdapterTarget& target : known.matrices) {
    if (!target.module.name.empty()) modules.push_back(target.module);
    if (is_parameter(target.module)) parameters.push_back(parameter_of(target.module));
    if (target.stack) parameters.push_back(target.stack->name());
    if (const auto change = find_change(target, config, has_experts)) {
      changes_.emplace(target.tensor, *change);
    }
  }
  const std::set<std::string_view> refused = refuse_parts(known, root, modules);
  config.check_targets(modules, parameters);

  std::vector<std::string> wrong;
  for (const AdapterTarget& target : known.matrices) {
    if (!changes(target.tensor)) continue;
    if (target.is_tied) {
      if (!find_change(target, config, has_experts)) continue;  // the output's, not the embedding's
      root.complain("target_modules", shortened(target.module.name),
                    "other matrices: this one is both the embedding and the output of the model, "
                    "and what is merged into the one would change the other");
    }
    Problems of_tensors;
    if (!of_tensors.keep([&] { check(change_of(target.tensor)); })) {
      wrong.push_back(of_tensors.all().front());
    }
  }
  const bool has_square_stacks = std::ranges::any_of(changes_, [](const auto& entry) {
    return entry.second.experts > 1 && entry.second.rows == entry.second.cols;
  });
  if (has_square_stacks) config.refuse_turned_stacks();
  complain_of(std::move(wrong), weights_path(), root);
  complain_of(stray_tensors(refused), weights_path(), root);
}

// What the adapter does to a matrix by one of its names.
std::optional<Adapter::Change> Adapter::find_change(const AdapterTarget& target,
                                                    const AdapterConfig& config,
                                                    bool has_experts) const {
  const AdaptedModule& module = target.module;
  const bool is_left_out = module.kind == AdaptedModule::Kind::kExpert && !has_experts;
  if (!module.name.empty() && config.changes(module) && !is_left_out) {
    return change_of(target, module.name, config);
  }
  if (is_parameter(module) && config.changes_parameter(parameter_of(module))) {
    return change_of(target, parameter_of(module), config);
  }
  if (target.stack && config.changes_parameter(target.stack->name())) {
    return change_of_stack(target, config);
  }
  return std::nullopt;
}

// `name`: what patterns of ranks and scales know it by.
Adapter::Change Adapter::change_of(const AdapterTarget& target, const std::string& name,
                                   const AdapterConfig& config) const {
  const std::string prefix = prefix_of(target.module);
  const bool is_embedding = target.module.kind == AdaptedModule::Kind::kEmbedding;
  Change change = {.a = prefix + (is_embedding ? "lora_embedding_A" : "lora_A.weight"),
                   .b = prefix + (is_embedding ? "lora_embedding_B" : "lora_B.weight"),
                   .is_turned = is_embedding,
                   .rank = config.rank_of(name),
                   .rows = target.rows,
                   .cols = target.cols,
                   .scale = config.scale_of(name)};
  const std::string replacement = prefix + "base_layer.weight";
  const bool may_be_replaced = is_embedding || target.module.kind == AdaptedModule::Kind::kOutput;
  if (may_be_replaced && file_.contains(replacement)) {
    change.replacement = replacement;
  }
  return change;
}

// PEFT wraps the module once for each of its parameters in their order: gate_up_proj, down_proj.
Adapter::Change Adapter::change_of_stack(const AdapterTarget& target,
                                         const AdapterConfig& config) const {
  const ExpertStack& stack = *target.stack;
  const bool is_inner = stack.parameter != kDownStack &&
                        config.changes_parameter(stack.module + "." + std::string(kDownStack));
  const std::string prefix =
      fmt::format("{}{}{}", kRoot, stack.module, is_inner ? ".base_layer" : "");
  Change change = {.a = prefix + ".lora_A.weight",
                   .b = prefix + ".lora_B.weight",
                   .rank = config.rank_of(stack.name()),
                   .rows = stack.rows,
                   .cols = target.cols,
                   .scale = config.scale_of(stack.name()),
                   .experts = stack.experts,
                   .first = stack.first,
                   .tensor_rows = target.rows};
  // Older versions of PEFT take the outputs of most stacks for inputs.
  if (file_.contains(change.a) && stack.rows != target.cols) {
    const auto& shape = file_.stored(change.a).shape;
    change.is_turned = shape.size() == 2 && shape[1] == stack.rows;
  }
  return change;
}

void Adapter::check(const Change& change) const {
  const int64_t rank = change.rank * change.experts;
  file_.check(change.a, rank, change.is_turned ? change.rows : change.cols);
  file_.check(change.b, change.is_turned ? change.cols : change.rows, rank);
  if (!change.replacement.empty()) file_.check(change.replacement, change.rows, change.cols);
}

// Complains of the tensors of parts that no adapter may change, and returns them. Adds the modules
// that they change.
std::set<std::string_view> Adapter::refuse_parts(const AdapterTargets& targets,
                                                 const JsonObject& config,
                                                 std::vector<AdaptedModule>& modules) const {
  const std::set<std::string_view> used = used_tensors();
  std::set<std::string_view> refused;
  std::vector<std::string> messages;
  const auto refuse = [&](const std::string& part, std::string_view why) {
    auto tensors = tensors_below(file_, fmt::format("{}{}", kRoot, part));
    std::erase_if(tensors, [&](std::string_view tensor) { return used.contains(tensor); });
    if (tensors.empty()) return;
    messages.push_back(fmt::format("{}: has {} of {}, {}{}", weights_path(),
                                   counted(std::ssize(tensors), "tensor", "tensors"),
                                   part.substr(0, part.size() - 1), why, kMergeElsewhere));
    for (const std::string_view tensor : tensors) modules.push_back({adapted_module(tensor)});
    refused.insert(tensors.begin(), tensors.end());
  };
  for (const std::string& part : targets.unused) {
    refuse(part, "a part of the model that is not run");
  }
  for (const std::string& part : targets.fixed) {
    refuse(part, "which an adapter cannot change here");
  }
  complain_of(std::move(messages), weights_path(), config);
  return refused;
}

std::set<std::string_view> Adapter::used_tensors() const {
  std::set<std::string_view> used;
  for (const auto& entry : changes_) {
    used.insert({entry.second.a, entry.second.b, entry.second.replacement});
  }
  return used;
}

// One message for each tensor that is not used and was not refused.
std::vector<std::string> Adapter::stray_tensors(std::set<std::string_view> known) const {
  known.merge(used_tensors());
  std::vector<std::string> messages;
  for (const auto& entry : file_.tensors()) {
    if (known.contains(entry.first)) continue;
    messages.push_back(
        fmt::format("{}: tensor '{}' is of no matrix of the model that {} names by target_modules, "
                    "target_parameters, layers_to_transform and exclude_modules",
                    weights_path(), shortened(entry.first), kAdapterConfig));
  }
  return messages;
}

const Adapter::Change& Adapter::change_of(std::string_view tensor) const {
  const auto found = changes_.find(tensor);
  CHECK(found != changes_.end());
  return found->second;
}

LowRank Adapter::update_of(std::string_view tensor, int64_t first_row, int64_t rows,
                           int64_t step) const {
  const Change& change = change_of(tensor);
  const int64_t expert = (change.first + first_row) / change.rows;
  const int64_t first = (change.first + first_row) % change.rows;
  CHECK(first_row >= 0 && expert < change.experts && first + (rows - 1) * step < change.rows);
  const int64_t rank = change.rank * change.experts;
  Tensor a = file_.tensor(change.a, rank, change.is_turned ? change.rows : change.cols);
  Tensor b = file_.tensor(change.b, change.is_turned ? change.cols : change.rows, rank);
  const auto move = [](Tensor& to, int64_t row, int64_t column) {
    to.data = static_cast<char*>(to.data) + (row * to.stride + column) * size_of(to.dtype);
  };
  move(a, expert * change.rank, change.is_turned ? first : 0);
  move(b, change.is_turned ? 0 : first, expert);
  a.rows = b.cols = change.rank;
  (change.is_turned ? a.cols : b.rows) = rows;
  return {.a = change.is_turned ? b : a,
          .b = change.is_turned ? a : b,
          .are_transposed = change.is_turned,
          .scale = change.scale,
          .rank_step = change.experts,
          .row_step = step};
}

Tensor Adapter::replacement_of(std::string_view tensor) const {
  const Change& change = change_of(tensor);
  if (change.replacement.empty()) return {};
  return file_.tensor(change.replacement, change.rows, change.cols);
}

void Adapter::give_back(std::string_view tensor) const {
  const Change& change = change_of(tensor);
  const bool is_read = change.first + change.tensor_rows == change.experts * change.rows;
  if (!is_read) return;  // other experts' matrices are in the same tensors
  file_.give_back(change.a);
  file_.give_back(change.b);
  if (!change.replacement.empty()) file_.give_back(change.replacement);
}

int64_t Adapter::num_parameters() const {
  int64_t sum = 0;
  for (const auto& [tensor, change] : changes_) {
    if (change.first == 0) sum += change.rank * change.experts * (change.rows + change.cols);
  }
  return sum;
}

std::pair<int64_t, int64_t> Adapter::ranks() const {
  const auto by_rank = [](const auto& a, const auto& b) { return a.second.rank < b.second.rank; };
  const auto [min, max] = std::ranges::minmax_element(changes_, by_rank);
  return {min->second.rank, max->second.rank};
}

}  // namespace pagedinfer
