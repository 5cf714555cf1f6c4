#include "model/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/refusal.h"
#include "io/json_file.h"
#include "model/families.h"
#include "model/model_files.h"
#include "model/needed_tensors.h"
#include "model/parameters.h"
#include "model/rope_scaling.h"
#include "model/unused_tensors.h"
#include "model/weights.h"

namespace pagedinfer {
namespace {

// Sizes, ends and rope, as the fields that most families share say them.
void read_unknown_family(const JsonObject& config, ModelSpec& spec, Problems& problems) {
  const auto text = config.has("hidden_size") ? std::nullopt : config.find_object("text_config");
  const JsonObject& from = text ? *text : config;
  read_sizes(from, {.hidden = 0, .layers = 0, .heads = 0}, spec);
  for (LayerSpec& layer : spec.layers) layer.window = kUnknownWindow;
  problems.keep([&] { read_rope(from, {.may_be_partial = true}, spec); });
}

bool knows_sizes(const ModelSpec& spec) {
  const int sizes[] = {spec.hidden,   spec.vocab,    spec.intermediate, spec.heads,
                       spec.kv_heads, spec.head_dim, spec.max_positions};
  return std::ranges::all_of(sizes, [](int size) { return size > 0; }) && !spec.layers.empty();
}

// Returns the names that the tensors may have; none if the shapes of the tensors are not known.
std::vector<TensorNames> read_config(const JsonObject& config, InspectedModel& model,
                                     QuantizedWeights& quantized, Problems& problems) {
  problems.keep([&] {
    const std::vector<std::string> architectures = config.strings("architectures");
    if (!architectures.empty()) model.architecture = architectures.front();
  });
  problems.keep([&] { model.model_type = config.find_string("model_type").value_or(""); });
  ReadFamily read = nullptr;
  std::vector<TensorNames> candidates;
  const bool is_known = problems.keep([&] { read = find_family(config); });
  quantized = QuantizedWeights(config);
  refuse_unless_causal(config);
  if (!is_known) {
    problems.keep([&] { read_unknown_family(config, model.spec, problems); });
  } else if (!problems.keep([&] { read(config, model.spec, candidates); })) {
    candidates.clear();
  }
  problems.keep([&] { read_gguf_layout(config, model.spec); });
  check_experts(config, model.spec);
  const bool knows_ties =
      problems.keep([&] { model.tied_embeddings = config.find_bool("tie_word_embeddings"); });
  if (!knows_ties || !knows_sizes(model.spec)) candidates.clear();
  if (!candidates.empty()) model.tied_embeddings = model.spec.tied_embeddings;
  return candidates;
}

void read_tokens(const ModelStore& store, const JsonObject& config, InspectedModel& model,
                 Problems& problems) {
  const int vocab = model.spec.vocab;
  if (vocab == 0) model.spec.vocab = std::numeric_limits<int>::max();  // not known
  problems.keep([&] { read_eos_tokens(config, model.spec); });
  problems.keep([&] { model.generation = read_generation(store, model.spec, &problems); });
  model.spec.vocab = vocab;
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
  model.num_files = static_cast<int>(files.files().size());
}

// Whether the tensor is a matrix that is quantized.
bool is_quantized_matrix(const Checkpoint& files, const QuantizedWeights& quantized,
                         const Checkpoint::Declared& tensor) {
  return tensor.rows > 1 && quantized.has(files, tensor.name);
}

void check_tensors(const Checkpoint& files, const QuantizedWeights& quantized,
                   const std::vector<Checkpoint::Declared>& needed, Problems& problems) {
  std::vector<std::string> wrong;
  for (const Checkpoint::Declared& tensor : needed) {
    Problems of_tensor;
    const bool is_right = of_tensor.keep([&] {
      if (is_quantized_matrix(files, quantized, tensor)) {
        static_cast<void>(
            quantized.open(files, tensor.name, {tensor.rows, tensor.cols, tensor.stacked}));
      } else {
        files.check(tensor.name, tensor.rows, tensor.cols, tensor.stacked);
      }
    });
    if (!is_right) wrong.push_back(of_tensor.all().front());
  }
  constexpr std::string_view kOthers =
      "more tensors that are missing or are not what config.json expects";
  for (std::string& message : first_few(std::move(wrong), kOthers)) {
    problems.add(std::move(message));
  }
}

void describe_quantization(const Checkpoint& files, const QuantizedWeights& quantized,
                           const std::vector<Checkpoint::Declared>& needed, InspectedModel& model) {
  if (quantized.description().empty()) return;
  int64_t num_matrices = 0, num_quantized = 0;
  for (const Checkpoint::Declared& tensor : needed) {
    if (tensor.rows > 1) ++num_matrices;
    if (is_quantized_matrix(files, quantized, tensor)) ++num_quantized;
  }
  model.quantization = fmt::format("{}; {} of {}", quantized.description(), num_quantized,
                                   counted(num_matrices, "matrix", "matrices"));
  model.has_codes = quantized.has_codes();
}

void read_adapter(const std::string& lora, const TensorNames& names,
                  std::span<const TensorNames> candidates, InspectedModel& model,
                  Problems& problems) {
  if (lora.empty()) return;
  problems.keep([&] {
    model.adapter.emplace(lora, adapter_targets(model.spec, names, candidates), &problems);
  });
}

void read_checkpoint(const ModelStore& store, const std::string& lora,
                     const std::vector<TensorNames>& candidates, const QuantizedWeights& quantized,
                     InspectedModel& model, Problems& problems) {
  std::optional<Checkpoint> files;
  const bool has_files = problems.keep([&] { files.emplace(open_checkpoint(store)); });
  if (has_files) add_totals(*files, model);
  if (candidates.empty()) return;
  TensorNames names =
      has_files ? choose_names(candidates, model.spec, *files, quantized) : candidates.front();
  if (has_files) tie_embeddings(*files, names, model.spec);
  model.tied_embeddings = model.spec.tied_embeddings;
  const std::vector<Checkpoint::Declared> needed =
      has_files ? needed_tensors(model.spec, names, *files, quantized)
                : needed_tensors(model.spec, names);
  model.parameters = parameters_of(model.spec, needed);
  const bool is_told = has_files && problems.keep([&] { check_told(store, quantized, *files); });
  if (is_told && quantized.is_known()) {
    describe_quantization(*files, quantized, needed, model);
    model.weight_notes = weight_notes(*files, names, needed, quantized);
    check_tensors(*files, quantized, needed, problems);
    // What is wrong with it was said above.
    static_cast<void>(Problems().keep([&] { model.dtype = file_dtype(*files, quantized, names); }));
  }
  read_adapter(lora, names, candidates, model, problems);
  if (model.adapter && is_told && quantized.is_known()) {
    model.num_merged = num_merged(*model.adapter, model.spec, names, *files, quantized);
  }
}

void make_up_weights(const JsonObject& config, const std::vector<TensorNames>& candidates,
                     InspectedModel& model) {
  if (candidates.empty()) return;
  const auto needed = needed_tensors(model.spec, candidates.front());
  const DType type = dummy_type(config);
  model.parameters = parameters_of(model.spec, needed);
  model.stored = {{.type = name_of(type),
                   .num_tensors = std::ssize(needed),
                   .parameters = model.parameters.all,
                   .bytes = model.parameters.all * size_of(type)}};
}

}  // namespace

InspectedModel inspect_model(const ModelStore& store, WeightSource source, Problems& problems,
                             const std::string& lora) {
  InspectedModel model;
  std::optional<JsonFile> file;
  std::vector<TensorNames> candidates;
  QuantizedWeights quantized;
  if (problems.keep([&] { file.emplace(store.json("config.json", &problems)); })) {
    candidates = read_config(file->root(), model, quantized, problems);
    read_tokens(store, file->root(), model, problems);
  }
  if (!lora.empty()) check_adapter_config(lora, problems);
  if (source == WeightSource::kFiles) {
    read_checkpoint(store, lora, candidates, quantized, model, problems);
  } else if (file) {
    problems.keep([&] { make_up_weights(file->root(), candidates, model); });
  }
  return model;
}

}  // namespace pagedinfer
