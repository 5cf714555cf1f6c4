#include "load/model_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "intake/intake.h"
#include "io/file_names.h"
#include "load/answer_forms.h"
#include "load/model_path.h"
#include "load/open_store.h"
#include "load/quantization.h"
#include "load/sampling_defaults.h"
#include "load/system_memory.h"
#include "ops/peaks.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

void check_stop_tokens(std::span<const TokenId> tokens, int vocab) {
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab) continue;
    throw Error(refusal_of_token("--stop-token-ids", token, vocab));
  }
}

// Calls `read`. Adds to an Error about the model's files how to get a full description of them.
template <class Read>
auto about_model(const Config& config, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string lora = config.lora ? fmt::format(" --lora {}", shortened(*config.lora)) : "";
    throw Error(fmt::format("{}; pagedinfer info --model {}{} says what is supported", error.what(),
                            shortened(config.model), lora));
  }
}

// Reads the model's files, tokenizer and defaults.
ModelPlan open(const Config& config) {
  const std::string dir = find_model(config.model, program_path());
  const auto source =
      config.weights == Config::Weights::kDummy ? WeightSource::kDummy : WeightSource::kFiles;
  const ModelStore store = about_model(config, [&] { return open_store(dir); });
  ModelPlan model{.dir = dir,
                  .opened = about_model(config, [&] { return open_model(store, source); })};
  if (config.lora) about_model(config, [&] { open_adapter(*config.lora, model.opened); });
  if (source == WeightSource::kFiles) {
    for (const MappedFile& file : model.opened.checkpoint.files()) {
      model.weight_files.emplace_back(file);
    }
  }
  if (config.lora) model.adapter_file.emplace(model.opened.adapter->weights_file());
  model.name = config.served_model_name.value_or(name_of_model(dir));
  const int vocab = model.opened.spec.vocab;
  const int64_t allocated = allocated_bytes();
  model.tokenizer = about_model(config, [&] {
    auto tokenizer = make_tokenizer(store);
    if (tokenizer) check_vocabulary(store, *tokenizer, vocab);
    return tokenizer;
  });
  model.tokenizer_bytes = std::max<int64_t>(allocated_bytes() - allocated, 0);
  model.chat = make_chat_settings(config, store, model.tokenizer.get());
  check_chat(model.chat, store, model.tokenizer.get());
  const GenerationDefaults& generation = model.opened.generation;
  const bool has_tokenizer = model.tokenizer != nullptr;
  model.defaults = default_sampling(config.sampling, generation, has_tokenizer);
  model.defaults.form = form_of_flags(config);
  model.notes = generation_notes(config.sampling, generation, has_tokenizer);
  const auto& of_weights = model.opened.weight_notes;
  model.notes.insert(model.notes.end(), of_weights.begin(), of_weights.end());
  check_stop_tokens(config.sampling.values.stop_token_ids, vocab);
  return model;
}

// The folder of --gpu-cache; "": none.
std::string cache_folder(const std::string& given) {
  if (given == "none") return "";
  if (!given.empty()) return given;
  const std::string home = home_folder();
  return home.empty() ? "" : home + "/.cache/pagedinfer";
}

void check_threads(const Config& config) {
  if (!config.cpu_list || !config.threads) return;
  const auto cpus = std::ssize(config.cpu_list->cpus);
  if (*config.threads <= cpus) return;
  throw Error(fmt::format("--threads {}: --cpu-list {} has room for {} thread{}", *config.threads,
                          text_of(*config.cpu_list), cpus, cpus == 1 ? "" : "s"));
}

// Peaks are measured on a separate device object. It frees its memory before the model takes its
// share.
void make_device(const Config& config, const std::function<double()>& clock, ModelPlan& model) {
  BackendChoice choice = choose_backend(config.device);
  const BackendInfo& backend = choice.row.info;
  about_model(config, [&] { check_sizes(backend, model.opened.spec); });
  model.backend = &choice.row;
  model.backend_note = choice.note.empty() ? backend.first_start() : std::move(choice.note);
  model.quantize =
      choose_quantization(config.quantize, model.opened.quantized.has_codes(), backend);
  if (model.quantize == Quantization::kCodes) {
    model.notes.emplace_back(
        "weights stay the checkpoint's codes, and products have inputs in int8; "
        "--quantize none dequantizes them");
  }
  if (model.opened.spec.experts.count > 0 && !backend.experts_note.empty()) {
    model.notes.emplace_back(backend.experts_note);
  }
  check_threads(config);
  if (config.cpu_list) confine_to(*config.cpu_list);
  model.dtype = config.dtype.value_or(file_dtype(model.opened));
  model.options = backend.resolve({.compute = model.dtype,
                                   .cache = model.dtype,
                                   .num_threads = config.threads.value_or(num_cores()),
                                   .cpus = config.cpu_list.value_or(CpuList{}),
                                   .cpu_isa = config.cpu_isa,
                                   .deterministic = config.deterministic,
                                   .cache_folder = cache_folder(config.gpu_cache),
                                   .pack_weights = config.pack_weights != Config::Packing::kOff,
                                   .attention = attention_shape(model.opened.spec)});
  if (const int64_t merged = num_merged(model.opened);
      merged > 0 && model.quantize == Quantization::kCodes) {
    model.notes.push_back(fmt::format(
        "{} that the adapter changes are dequantized, into {}; --quantize int8 makes all weights "
        "int8",
        counted(merged, "matrix", "matrices"), name_of(model.options.compute)));
  }
  if (model.dtype == DType::kF16 && model.options.compute == DType::kF32 &&
      model.quantize == Quantization::kNone) {
    model.notes.push_back(
        fmt::format("{} computes float16 as float32; --dtype bfloat16 runs 1.3 to 2 times as fast, "
                    "with AMX faster still",
                    backend.device));
  }
  if (config.profile) {
    model.peaks = backend.peaks(model.options, model.quantize, clock);
  }
  model.ops = backend.make(model.options);
}

void make_forms(const Config& config, ModelPlan& model) {
  if (model.tokenizer == nullptr) {
    model.no_forms = "the model directory has no tokenizer";
  } else if (std::string problem = grammar_problem(); !problem.empty()) {
    model.no_forms = std::move(problem);
  } else {
    const auto vocabulary = [&tokenizer = *model.tokenizer, vocab = model.opened.spec.vocab] {
      return form_vocabulary(tokenizer, vocab);
    };
    model.forms = std::make_unique<FormCompiler>(vocabulary);
  }
  if (!model.defaults.form.is_free() && !model.no_forms.empty()) {
    throw Error(fmt::format("{}: {}", flag_of_form(config), model.no_forms));
  }
}

// The bytes that a run may take.
int64_t available_to(const Config& config, const ModelPlan& model) {
  if (const std::optional<Capacity> memory = model.ops->memory().capacity()) {
    return available_on_device(memory->total, memory->free, config.gpu_memory_utilization);
  }
  // If the user sizes the cache, the user also leaves room for threads.
  const bool is_sized = config.num_blocks || config.kv_memory;
  constexpr int kOtherThreads = 2;  // one reads the input, one prepares memory
  constexpr int kFormThreads = FormShares::kMaxQuickThreads + 1;
  const int num_threads = num_tokenizers(model.options.num_threads) + kFormThreads + kOtherThreads;
  return available_memory("/", process_limits(), is_sized ? 0 : num_threads);
}

}  // namespace

PlannedModel ModelPlan::planned() const {
  return {.spec = opened.spec,
          .backend = backend->info,
          .memory = ops->memory(),
          .activation_type = ops->steps().activation_type(),
          .fuses_gate = ops->arithmetic().fuses_gate(),
          .quantize = quantize,
          .kv_type = options.cache,
          .weight_bytes = weight_bytes().total(),
          .tokenizer_bytes = tokenizer_bytes,
          .form_bytes = forms ? form_shares().total() : 0,
          .weight_bytes_as = [this](Quantization other) { return weight_bytes(other).total(); }};
}

WeightBytes ModelPlan::weight_bytes(Quantization quantized) const {
  return pagedinfer::weight_bytes(opened, options.compute, ops->memory(), quantized, dtype);
}

PromptLimits ModelPlan::prompt_limits(int max_model_len) const {
  return {.vocab = opened.spec.vocab,
          .max_model_len = max_model_len,
          .spec = &opened.spec,
          .no_forms = no_forms};
}

ModelPlan plan_model(const std::vector<Config>& configs, const std::function<double()>& clock) {
  const Config& config = configs.front();
  ModelPlan model = open(config);
  make_device(config, clock, model);
  make_forms(config, model);
  const PlannedModel planned = about_model(config, [&] { return model.planned(); });
  model.runs = plan_runs(configs, planned, [&](const Config& c) { return available_to(c, model); });
  return model;
}

}  // namespace pagedinfer
