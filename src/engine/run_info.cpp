#include "engine/run_info.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "engine/resolve.h"
#include "ops/cpu/cpu_ops.h"

namespace pagedinfer {

namespace {

// The double that is written like the float: 1.2, not 1.2000000476837158.
double as_given(float value) { return std::stod(fmt::format("{}", value)); }

std::string json_list(const std::vector<std::string>& texts) {
  std::string list;
  JsonWriter json(list);
  json.begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
  return list;
}

}  // namespace

RunInfo describe_run(const Config& config, const Setup& setup) {
  const Resolved resolved =
      resolve(config, setup.max_model_len, setup.backend->info.usual_step_tokens);
  const SchedulerLimits& limits = setup.limits;
  const SamplingParams& sampling = setup.defaults;
  const bool contiguous = resolved.kv == Config::Kv::kContiguous;
  RunInfo info = {.version = PAGEDINFER_VERSION,
                  .input = config.input,
                  .model = setup.model_dir,
                  .device = setup.ops->description(),
                  .kv_bytes_per_position = setup.memory.kv_bytes_per_token};
  const auto set = [&](std::string_view name, auto value) {
    info.config.push_back({std::string(name), value});
  };
  const Paths paths = resolve_paths(config);
  set("prompt_field", config.prompt_field);
  set("strict", config.strict);
  set("chat", config.chat);
  if (config.system) set("system", *config.system);
  set("chat_template", std::string(chat_template_name(setup.chat.format)));
  set("chat_date", config.chat_date);
  if (config.limit) set("limit", *config.limit);
  if (config.shard) set("shard", fmt::format("{}/{}", config.shard->index, config.shard->count));
  set("output", paths.output);
  set("stats", paths.stats);
  set("trace", config.trace);
  set("order", std::string(config.order == Config::Order::kCompletion ? "completion" : "input"));
  set("overwrite", config.overwrite);
  set("resume", config.resume);
  set("retry_errors", config.retry_errors);
  set("sync_every", config.sync_every);
  set("token_ids", config.token_ids);
  set("record_timing", config.record_timing);
  set("profile", config.profile);
  set("device", std::string(setup.backend->info.name));
  set("served_model_name", setup.model_name);
  set("weights", std::string(config.weights == Config::Weights::kDummy ? "dummy" : "auto"));
  set("dtype", std::string(name_of(setup.options.compute)));
  set("max_model_len", int64_t{setup.max_model_len});
  set("threads", int64_t{setup.options.num_threads});
  if (setup.ops->capacity()) {
    set("gpu_memory_utilization",
        config.gpu_memory_utilization.value_or(kDefaultGpuMemoryUtilization));
  }
  if (!setup.backend->info.always_deterministic) set("deterministic", config.deterministic);
  if (setup.options.cpu_isa) set("cpu_isa", std::string(name_of(*setup.options.cpu_isa)));
  set("kv", std::string(contiguous ? "contiguous" : "paged"));
  set("block_size", int64_t{setup.memory.block_size});
  set("num_blocks", setup.memory.num_blocks);
  set("kv_bytes", setup.memory.kv_bytes);
  set("weight_bytes", setup.memory.weight_bytes);
  set("activation_bytes", setup.memory.activation_bytes);
  set("batching",
      std::string(config.batching == Config::Batching::kStatic ? "static" : "continuous"));
  set("max_batch_size", int64_t{limits.max_running});
  set("chunked_prefill", limits.chunked_prefill);
  if (limits.chunked_prefill) {
    set("prefill_chunk_size", int64_t{limits.prefill_chunk_size});
  }
  if (limits.max_prefill_chunks != std::numeric_limits<int>::max()) {
    set("max_prefill_chunks", int64_t{limits.max_prefill_chunks});
  }
  set("max_step_tokens", int64_t{limits.max_step_tokens});
  set("admission_reserve", limits.admission_reserve);
  set("max_tokens", int64_t{sampling.max_tokens});
  set("min_tokens", int64_t{sampling.min_tokens});
  if (sampling.floor.tokens > 0) set("min_new_tokens", int64_t{sampling.floor.tokens});
  if (sampling.floor.with_prompt > 0) set("min_length", int64_t{sampling.floor.with_prompt});
  set("temperature", as_given(sampling.temperature));
  set("top_k", int64_t{sampling.top_k});
  set("top_p", as_given(sampling.top_p));
  set("min_p", as_given(sampling.min_p));
  set("repetition_penalty", as_given(sampling.repetition_penalty));
  set("presence_penalty", as_given(sampling.presence_penalty));
  set("frequency_penalty", as_given(sampling.frequency_penalty));
  set("seed", fmt::format("{}", sampling.seed));
  set("ignore_eos", sampling.ignore_eos);
  set("stop", json_list(sampling.stop));
  set("stop_token_ids", fmt::format("{}", fmt::join(sampling.stop_token_ids, ",")));
  const ModelSpec& spec = setup.model.spec;
  const auto set_tokens = [&](std::string_view name, const std::vector<TokenId>& tokens) {
    if (!tokens.empty()) set(name, fmt::format("{}", fmt::join(tokens, ",")));
  };
  set_tokens("suppress_tokens", spec.suppressed);
  set_tokens("begin_suppress_tokens", spec.suppressed_first);
  if (spec.forced_end) set("forced_eos_token_id", int64_t{*spec.forced_end});
  info.notes = setup.notes;
  info.notes.insert(info.notes.end(), resolved.notes.begin(), resolved.notes.end());
  return info;
}

}  // namespace pagedinfer
