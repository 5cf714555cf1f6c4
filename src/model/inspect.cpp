#include "model/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "io/json_file.h"
#include "model/families.h"
#include "model/model_files.h"
#include "model/rope_scaling.h"
#include "model/weights.h"

namespace pagedinfer {
namespace {

constexpr int kShownTensors = 3;  // of those that are wrong

// Sizes, ends and rope, as the fields that most families share say them.
void read_unknown_family(const JsonObject& config, ModelSpec& spec, Problems& problems) {
  const auto text = config.has("hidden_size") ? std::nullopt : config.find_object("text_config");
  const JsonObject& from = text ? *text : config;
  if (!problems.keep([&] { read_sizes(from, {}, spec); })) return;
  problems.keep([&] { spec.rope_inv_freq = {rope_frequencies(from, spec.head_dim)}; });
}

// Returns the names that the tensors may have; none if the family is not known or cannot be read.
std::vector<TensorNames> read_config(const JsonObject& config, InspectedModel& model,
                                     Problems& problems) {
  problems.keep([&] {
    const std::vector<std::string> architectures = config.strings("architectures");
    if (!architectures.empty()) model.architecture = architectures.front();
  });
  problems.keep([&] { model.model_type = config.find_string("model_type").value_or(""); });
  problems.keep([&] { check_supported(config); });
  ReadFamily read = nullptr;
  std::vector<TensorNames> candidates;
  if (!problems.keep([&] { read = find_family(config); })) {
    problems.keep([&] { read_unknown_family(config, model.spec, problems); });
  } else if (!problems.keep([&] { read(config, model.spec, candidates); })) {
    candidates.clear();
  }
  if (model.spec.vocab > 0) problems.keep([&] { read_eos_tokens(config, model.spec); });
  return candidates;
}

void add_totals(const Checkpoint& files, InspectedModel& model) {
  std::map<std::string, TensorTotal> by_type;
  for (const auto& [name, tensor] : files.tensors()) {
    TensorTotal& total = by_type[tensor.type];
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;  // within the file, so no overflow
    total.type = tensor.type;
    ++total.num_tensors;
    total.parameters += count;
    total.bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  for (auto& entry : by_type) model.stored.push_back(std::move(entry.second));
  std::ranges::stable_sort(model.stored, std::ranges::greater{}, &TensorTotal::bytes);
  model.num_files = static_cast<int>(files.paths().size());
}

void check_tensors(const Checkpoint& files, const std::vector<Checkpoint::Declared>& needed,
                   Problems& problems) {
  int num_wrong = 0;
  for (const Checkpoint::Declared& tensor : needed) {
    Problems of_tensor;
    if (of_tensor.keep([&] { files.check(tensor.name, tensor.rows, tensor.cols); })) continue;
    if (++num_wrong <= kShownTensors) problems.add(of_tensor.all().front());
  }
  if (num_wrong > kShownTensors) {
    problems.add(fmt::format("{} more tensors are missing or are not what config.json expects",
                             num_wrong - kShownTensors));
  }
}

int64_t parameters_of(const std::vector<Checkpoint::Declared>& tensors) {
  int64_t sum = 0;
  for (const Checkpoint::Declared& tensor : tensors) sum += tensor.rows * tensor.cols;
  return sum;
}

void read_checkpoint(const std::string& dir, std::vector<TensorNames> candidates,
                     InspectedModel& model, Problems& problems) {
  std::optional<Checkpoint> files;
  const bool has_files = problems.keep([&] { files.emplace(dir); });
  if (has_files) add_totals(*files, model);
  if (candidates.empty()) return;
  TensorNames names = has_files ? choose_names(candidates, *files) : candidates.front();
  if (has_files) tie_embeddings(*files, names, model.spec);
  const std::vector<Checkpoint::Declared> needed = needed_tensors(model.spec, names);
  model.parameters = parameters_of(needed);
  if (has_files) check_tensors(*files, needed, problems);
}

void make_up_weights(const JsonObject& config, const std::vector<TensorNames>& candidates,
                     InspectedModel& model) {
  if (candidates.empty()) return;
  const auto needed = needed_tensors(model.spec, candidates.front());
  const DType type = dummy_type(config);
  model.parameters = parameters_of(needed);
  model.stored = {{.type = name_of(type),
                   .num_tensors = std::ssize(needed),
                   .parameters = model.parameters,
                   .bytes = model.parameters * size_of(type)}};
}

}  // namespace

InspectedModel inspect_model(const std::string& dir, WeightSource source, Problems& problems) {
  InspectedModel model;
  std::optional<JsonFile> file;
  std::vector<TensorNames> candidates;
  if (problems.keep([&] { file.emplace(dir + "/config.json", &problems); })) {
    candidates = read_config(file->root(), model, problems);
    if (model.spec.vocab > 0) {
      problems.keep([&] { model.generation = read_generation(dir, model.spec); });
    }
  }
  if (source == WeightSource::kFiles) {
    read_checkpoint(dir, std::move(candidates), model, problems);
  } else if (file) {
    problems.keep([&] { make_up_weights(file->root(), candidates, model); });
  }
  return model;
}

}  // namespace pagedinfer
