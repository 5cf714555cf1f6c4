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
  return std::ranges::any_of(targets.matrices,
                             [&](const AdapterTarget& target) {
                               return !tensors_below(file, prefix_of(target.module)).empty();
                             }) ||
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
  std::vector<AdaptedModule> modules;
  for (const AdapterTarget& target : known.matrices) modules.push_back(target.module);
  const std::set<std::string_view> refused = refuse_parts(known, root, modules);
  config.check_targets(modules);

  // The name of a target may be meant for a shared expert alone: in newer versions of transformers
  // the others are no modules.
  const auto is_expert = [](const AdapterTarget& target) {
    return target.module.kind == AdaptedModule::Kind::kExpert;
  };
  const bool has_experts = std::ranges::any_of(known.matrices, [&](const AdapterTarget& target) {
    return is_expert(target) && !tensors_below(file_, prefix_of(target.module)).empty();
  });
  std::vector<std::string> wrong;
  for (const AdapterTarget& target : known.matrices) {
    if (!config.changes(target.module) || (is_expert(target) && !has_experts)) continue;
    const Change change = change_of(target, config);
    Problems of_tensors;
    if (!of_tensors.keep([&] { check(change); })) wrong.push_back(of_tensors.all().front());
    if (target.is_tied) {
      root.complain("target_modules", shortened(target.module.name),
                    "other matrices: this one is both the embedding and the output of the model, "
                    "and what is merged into the one would change the other");
    }
    changes_.emplace(target.tensor, change);
  }
  complain_of(std::move(wrong), weights_path(), root);
  complain_of(stray_tensors(refused), weights_path(), root);
}

Adapter::Change Adapter::change_of(const AdapterTarget& target, const AdapterConfig& config) const {
  const std::string prefix = prefix_of(target.module);
  const bool is_embedding = target.module.kind == AdaptedModule::Kind::kEmbedding;
  Change change = {.a = prefix + (is_embedding ? "lora_embedding_A" : "lora_A.weight"),
                   .b = prefix + (is_embedding ? "lora_embedding_B" : "lora_B.weight"),
                   .is_embedding = is_embedding,
                   .rank = config.rank_of(target.module.name),
                   .rows = target.rows,
                   .cols = target.cols,
                   .scale = config.scale_of(target.module.name)};
  const std::string replacement = prefix + "base_layer.weight";
  const bool may_be_replaced = is_embedding || target.module.kind == AdaptedModule::Kind::kOutput;
  if (may_be_replaced && file_.contains(replacement)) {
    change.replacement = replacement;
  }
  return change;
}

void Adapter::check(const Change& change) const {
  file_.check(change.a, change.rank, change.is_embedding ? change.rows : change.cols);
  file_.check(change.b, change.is_embedding ? change.cols : change.rows, change.rank);
  if (!change.replacement.empty()) file_.check(change.replacement, change.rows, change.cols);
}

// Complains of the tensors of parts that no adapter may change, and returns them. Adds the modules
// that they change.
std::set<std::string_view> Adapter::refuse_parts(const AdapterTargets& targets,
                                                 const JsonObject& config,
                                                 std::vector<AdaptedModule>& modules) const {
  std::set<std::string_view> refused;
  std::vector<std::string> messages;
  const auto refuse = [&](const std::string& part, std::string_view why) {
    const auto tensors = tensors_below(file_, fmt::format("{}{}", kRoot, part));
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

// One message for each tensor that is not used and was not refused.
std::vector<std::string> Adapter::stray_tensors(std::set<std::string_view> known) const {
  for (const auto& entry : changes_) {
    known.insert({entry.second.a, entry.second.b, entry.second.replacement});
  }
  std::vector<std::string> messages;
  for (const auto& entry : file_.tensors()) {
    if (known.contains(entry.first)) continue;
    messages.push_back(
        fmt::format("{}: tensor '{}' is of no matrix of the model that {} names by target_modules, "
                    "layers_to_transform and exclude_modules",
                    weights_path(), shortened(entry.first), kAdapterConfig));
  }
  return messages;
}

const Adapter::Change& Adapter::change_of(std::string_view tensor) const {
  const auto found = changes_.find(tensor);
  CHECK(found != changes_.end());
  return found->second;
}

LowRank Adapter::update_of(std::string_view tensor, int64_t first_row, int64_t rows) const {
  const Change& change = change_of(tensor);
  CHECK(first_row >= 0 && first_row + rows <= change.rows);
  LowRank update = {.a = {}, .b = {}, .are_transposed = change.is_embedding, .scale = change.scale};
  if (change.is_embedding) {
    update.a = file_.tensor(change.b, change.cols, change.rank);
    update.b = file_.tensor(change.a, change.rank, change.rows);
  } else {
    update.a = file_.tensor(change.a, change.rank, change.cols);
    update.b = file_.tensor(change.b, change.rows, change.rank);
  }
  const int64_t first = change.is_embedding ? first_row : first_row * change.rank;
  update.b.data = static_cast<char*>(update.b.data) + first * size_of(update.b.dtype);
  (change.is_embedding ? update.b.cols : update.b.rows) = rows;
  return update;
}

Tensor Adapter::replacement_of(std::string_view tensor) const {
  const Change& change = change_of(tensor);
  if (change.replacement.empty()) return {};
  return file_.tensor(change.replacement, change.rows, change.cols);
}

void Adapter::give_back(std::string_view tensor) const {
  const Change& change = change_of(tensor);
  file_.give_back(change.a);
  file_.give_back(change.b);
  if (!change.replacement.empty()) file_.give_back(change.replacement);
}

int64_t Adapter::num_parameters() const {
  int64_t sum = 0;
  for (const auto& entry : changes_) {
    sum += entry.second.rank * (entry.second.rows + entry.second.cols);
  }
  return sum;
}

std::pair<int64_t, int64_t> Adapter::ranks() const {
  const auto by_rank = [](const auto& a, const auto& b) { return a.second.rank < b.second.rank; };
  const auto [min, max] = std::ranges::minmax_element(changes_, by_rank);
  return {min->second.rank, max->second.rank};
}

}  // namespace pagedinfer
