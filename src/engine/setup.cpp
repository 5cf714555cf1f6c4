#include "engine/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "core/error.h"
#include "engine/intake.h"
#include "engine/model_path.h"
#include "engine/sampling_defaults.h"
#include "engine/system_memory.h"
#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "ops/peaks.h"
#include "settings/rules.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

int choose_max_model_len(std::optional<int> asked, const ModelSpec& spec) {
  if (!asked) return spec.max_positions;
  if (*asked <= spec.max_positions) return *asked;
  throw Error(
      fmt::format("--max-model-len {}: the model allows at most {} (max_position_embeddings)",
                  *asked, spec.max_positions));
}

ChatSettings make_chat(const Config& config, const Setup& setup) {
  ChatSettings chat = {
      .format = read_chat_format(setup.model_dir, config.chat_template, config.chat_date),
      .wrap_prompts = config.chat,
      .system = config.system};
  if (config.chat && chat.format.known == nullptr) {
    throw Error(fmt::format("--chat: {}: {}", setup.model_dir, chat.format.problem));
  }
  if (config.chat && setup.tokenizer == nullptr) {
    throw Error(fmt::format("--chat: {} has no tokenizer", setup.model_dir));
  }
  chat.end_of_turn = find_end_of_turn(chat.format, setup.tokenizer.get());
  return chat;
}

void check_stop_tokens(const std::vector<TokenId>& tokens, int vocab) {
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab) continue;
    throw Error(
        fmt::format("--stop-token-ids {}: the model's token ids are 0 to {}", token, vocab - 1));
  }
}

SchedulerLimits make_limits(const Config& config, int max_model_len, int usual_step_tokens) {
  const Config used = resolve(config, max_model_len, usual_step_tokens).config;
  return {.batching = config.batching == Config::Batching::kStatic ? Batching::kStatic
                                                                   : Batching::kContinuous,
          .chunked_prefill = used.chunked_prefill,
          .prefill_chunk_size = used.prefill_chunk_size,
          .max_prefill_chunks = config.max_prefill_chunks.value_or(std::numeric_limits<int>::max()),
          .max_step_tokens = *used.max_step_tokens,
          .max_running = used.max_batch_size,
          .max_waiting = used.max_batch_size,
          .max_model_len = max_model_len,
          .admission_reserve = config.admission_reserve};
}

StepBounds bounds_of(const Config& config, const Setup& setup) {
  const ModelSpec& spec = setup.model.spec;
  return {.tokens = setup.limits.max_step_tokens,
          .sequences = setup.limits.max_running,
          .widest_input = std::max({spec.hidden, spec.intermediate, spec.heads * spec.head_dim}),
          .vocab = spec.vocab,
          .context = setup.max_model_len,
          .block_size = config.block_size,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim};
}

DeviceOptions make_options(const Config& config, const Setup& setup) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return setup.backend->info.resolve({.compute = config.dtype.value_or(file_dtype(setup.model)),
                                      .num_threads = config.threads.value_or(cores),
                                      .cpu_isa = config.cpu_isa,
                                      .deterministic = config.deterministic});
}

// How much memory a run may take.
int64_t available_to(const Config& config, const Setup& setup) {
  if (const std::optional<Capacity> memory = setup.ops->capacity()) {
    return available_on_device(memory->total, memory->free, config.gpu_memory_utilization);
  }
  // Whoever says how large the cache is leaves room for threads.
  const bool is_sized = config.num_blocks || config.kv_memory;
  constexpr int kOtherThreads = 2;  // one reads the input, one prepares memory
  const int num_threads = num_tokenizers(setup.options.num_threads) + kOtherThreads;
  return available_memory("/", process_limits(), is_sized ? 0 : num_threads);
}

// The machine's peaks are measured by a device of their own, whose memory is free again before the
// run takes its share.
void make_device(const Config& config, const std::function<double()>& clock, Setup& setup) {
  const BackendInfo& backend = setup.backend->info;
  if (config.profile) {
    setup.peaks =
        measure_peaks(*backend.make(setup.options), setup.options.compute, backend.probe, clock);
  }
  setup.ops = backend.make(setup.options);
}

MemoryPlan make_plan(const Config& config, const Setup& setup, int64_t available_bytes) {
  const ModelSpec& spec = setup.model.spec;
  const int64_t per_layer =
      setup.ops->kv_bytes_per_position(setup.options.compute, spec.kv_heads, spec.head_dim);
  const StepBounds bounds = bounds_of(config, setup);
  const int64_t activation_bytes =
      scratch_bytes(spec, setup.ops->activation_type(), setup.limits.max_step_tokens,
                    setup.limits.max_running) +
      setup.ops->workspace_bytes(bounds);
  return plan_memory({.rules = setup.backend->info.memory,
                      .available_bytes = available_bytes,
                      .weight_bytes = weight_bytes(setup.model, setup.options.compute, *setup.ops),
                      .activation_bytes = activation_bytes,
                      .kv_bytes_per_token = per_layer * static_cast<int64_t>(spec.layers.size()),
                      .block_size = bounds.block_size,
                      .max_batch_size = setup.limits.max_running,
                      .max_model_len = setup.max_model_len,
                      .num_blocks = config.num_blocks,
                      .kv_memory = config.kv_memory});
}

std::unique_ptr<KvPool> make_pool(const Config& config, const Setup& setup) {
  const Config used =
      resolve(config, setup.max_model_len, setup.backend->info.usual_step_tokens).config;
  if (used.kv == Config::Kv::kContiguous) {
    return std::make_unique<ContiguousPool>(setup.memory.num_positions(), setup.max_model_len);
  }
  return std::make_unique<PagedPool>(setup.memory.num_blocks, setup.memory.block_size);
}

}  // namespace

Setup set_up(const Config& config, const std::function<double()>& clock) {
  const std::string dir = find_model(config.model, program_path());
  const auto source =
      config.weights == Config::Weights::kDummy ? WeightSource::kDummy : WeightSource::kFiles;
  Setup setup{.model_dir = dir, .model = open_model(dir, source)};
  setup.model_name = config.served_model_name.value_or(name_of_model(dir));
  const ModelSpec& spec = setup.model.spec;
  setup.tokenizer = make_tokenizer(dir);
  if (setup.tokenizer && setup.tokenizer->vocab_size() > spec.vocab) {
    throw Error(fmt::format("{}: the tokenizer has {} tokens, config.json only {} (vocab_size)",
                            dir, setup.tokenizer->vocab_size(), spec.vocab));
  }
  setup.chat = make_chat(config, setup);
  const bool has_tokenizer = setup.tokenizer != nullptr;
  setup.defaults = default_sampling(config.sampling, setup.model.generation, has_tokenizer);
  setup.notes = generation_notes(config.sampling, setup.model.generation, has_tokenizer);
  check_stop_tokens(config.sampling.values.stop_token_ids, spec.vocab);
  setup.max_model_len = choose_max_model_len(config.max_model_len, spec);

  BackendChoice choice = choose_backend(config.device);
  setup.backend = &choice.row;
  setup.backend_note = std::move(choice.note);
  setup.limits = make_limits(config, setup.max_model_len, choice.row.info.usual_step_tokens);
  setup.options = make_options(config, setup);
  make_device(config, clock, setup);
  const int64_t available = available_to(config, setup);
  setup.memory = make_plan(config, setup, available);
  setup.ops->reserve(bounds_of(config, setup), setup.memory.weight_bytes + setup.memory.kv_bytes,
                     setup.memory.activation_bytes);
  setup.weights = load_weights(setup.model, setup.options.compute, *setup.ops);
  setup.pool = make_pool(config, setup);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    setup.cache.push_back(setup.ops->allocate_kv(setup.options.compute, spec.kv_heads,
                                                 spec.head_dim, setup.memory.num_positions()));
  }
  return setup;
}

}  // namespace pagedinfer
