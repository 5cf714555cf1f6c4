#include "load/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "model/decoder.h"
#include "settings/rules.h"

namespace pagedinfer {
namespace {

int choose_max_model_len(std::optional<int> asked, const ModelSpec& spec) {
  if (!asked) return spec.max_positions;
  const int most = std::max(spec.max_positions, spec.max_stretched_positions);
  if (*asked <= most) return *asked;
  throw Error(fmt::format(
      "--max-model-len {}: the model allows at most {} ({})", *asked, most,
      most == spec.max_positions ? "max_position_embeddings" : "as far as its rope is scaled"));
}

DType choose_kv_type(std::optional<DType> asked, const PlannedModel& model) {
  if (!asked || *asked == model.kv_type) return model.kv_type;
  if (std::ranges::count(model.backend.cache_types, *asked) > 0) return *asked;
  std::string others;
  for (const DType type : model.backend.cache_types) {
    others += fmt::format(", or {}", name_of(type));
  }
  throw Error(
      fmt::format("--kv-dtype {}: the cache of {} has the type of computation, {}{}; leave it out",
                  name_of(*asked), model.backend.device, name_of(model.kv_type), others));
}

// REQUIRES: `used` is the result of resolve(), so max_step_tokens has a value.
SchedulerLimits make_limits(const Config& used, int max_model_len) {
  return {.batching = used.batching == Config::Batching::kStatic ? Batching::kStatic
                                                                 : Batching::kContinuous,
          .chunked_prefill = used.chunked_prefill,
          .prefill_chunk_size = used.prefill_chunk_size,
          .max_prefill_chunks = used.max_prefill_chunks.value_or(std::numeric_limits<int>::max()),
          .max_step_tokens = *used.max_step_tokens,
          .max_running = used.max_batch_size,
          .max_waiting = used.max_batch_size,
          .max_model_len = max_model_len,
          .admission_reserve = used.admission_reserve,
          .prefix_cache = used.prefix_cache};
}

// A step must hold more than max_running sequences in two cases. A prompt with more samples than
// that draws all their first tokens in one step. A beam search with more beams runs alone, with a
// token of each beam in a step.
StepBounds make_bounds(const SchedulerLimits& limits, int block_size, Quantization quantize,
                       const ModelSpec& spec) {
  return {.tokens = std::max(limits.max_step_tokens, kMaxSamples),
          .sequences = std::max(limits.max_running, kMaxSamples),
          .widest_input = std::max({spec.hidden, spec.intermediate, spec.heads * spec.head_dim}),
          .int8_products = multiplies_int8(quantize),
          .experts = {.experts = spec.experts.count,
                      .per_row = spec.experts.per_token,
                      .hidden = spec.hidden,
                      .width = spec.experts.width,
                      .shared_width = spec.experts.shared_width},
          .vocab = spec.vocab,
          .context = limits.max_model_len,
          .block_size = block_size};
}

// The plan without its memory.
RunPlan plan_steps(const Config& config, const PlannedModel& model) {
  const int max_model_len = choose_max_model_len(config.max_model_len, model.spec);
  const Config used = resolve(config, max_model_len, model.backend.usual_step_tokens).config;
  RunPlan plan = {.limits = make_limits(used, max_model_len),
                  .kv = used.kv,
                  .kv_type = choose_kv_type(config.kv_dtype, model)};
  plan.bounds = make_bounds(plan.limits, used.block_size, model.quantize, model.spec);
  plan.host =
      plan_host_share(plan.limits, used.block_size, model.tokenizer_bytes, model.form_bytes);
  plan.host.threads = model.memory.thread_bytes(plan.bounds);
  return plan;
}

// What runs within these bounds would take if the weights were smaller.
std::vector<OtherWeights> smaller_weights(const PlannedModel& model, StepBounds bounds) {
  std::vector<OtherWeights> smaller;
  if (!model.weight_bytes_as) return smaller;
  bounds.int8_products = true;
  const int64_t activation_bytes = step_bytes(model, bounds).total();
  for (const auto& [quantize, setting] : {std::pair(Quantization::kInt8, "--quantize int8"),
                                          {Quantization::kInt4, "--quantize int4"}}) {
    if (quantize == Quantization::kInt4 && !model.backend.keeps_codes) continue;
    const int64_t bytes = model.weight_bytes_as(quantize);
    if (bytes < model.weight_bytes) smaller.push_back({setting, bytes, activation_bytes});
  }
  return smaller;
}

// `bounds`: of all runs.
MemoryPlan make_memory_plan(const Config& config, const RunPlan& plan, const PlannedModel& model,
                            const StepBounds& bounds, int64_t available_bytes) {
  const ModelSpec& spec = model.spec;
  const int64_t per_layer =
      model.memory.kv_bytes_per_position(plan.kv_type, spec.kv_heads, spec.head_dim);
  const bool is_of_host = !model.memory.capacity();
  return plan_memory(
      {.rules = model.backend.memory,
       .available_bytes = available_bytes,
       .weight_bytes = model.weight_bytes,
       .activation_bytes = step_bytes(model, bounds).total(),
       .kv_bytes_per_token = per_layer * static_cast<int64_t>(spec.layers.size()),
       .kv_bytes = [&](int64_t num) { return kv_bytes_of(model, plan.kv_type, num); },
       .beside_bytes = is_of_host ? plan.host.to_come() : 0,
       .beside_bytes_per_token = is_of_host ? plan.host.per_token : 0,
       .block_size = plan.bounds.block_size,
       .max_sequences = plan.bounds.sequences,
       .max_model_len = plan.limits.max_model_len,
       .num_blocks = config.num_blocks,
       .kv_memory = config.kv_memory,
       .smaller_weights = [&] { return smaller_weights(model, bounds); }});
}

}  // namespace

int64_t kv_bytes_of(const PlannedModel& model, DType kv_type, int64_t num_positions) {
  const ModelSpec& spec = model.spec;
  return model.memory.kv_bytes(kv_type, spec.kv_heads, spec.head_dim, num_positions) *
         static_cast<int64_t>(spec.layers.size());
}

StepBytes step_bytes(const PlannedModel& model, const StepBounds& bounds) {
  const DType type = model.activation_type;
  const auto scratch = [&](int64_t logits) {
    return scratch_bytes(model.spec, type, model.fuses_gate, bounds.tokens, logits);
  };
  const int64_t activations = scratch(0);
  return {.activations = activations,
          .logits = scratch(bounds.sequences) - activations,
          .workspace = model.memory.workspace_bytes(bounds)};
}

StepBounds bounds_of_all(const std::vector<RunPlan>& plans) {
  StepBounds all = plans.front().bounds;
  for (const RunPlan& plan : plans) {
    all.tokens = std::max(all.tokens, plan.bounds.tokens);
    all.sequences = std::max(all.sequences, plan.bounds.sequences);
    all.context = std::max(all.context, plan.bounds.context);
    all.block_size = std::min(all.block_size, plan.bounds.block_size);
  }
  return all;
}

std::vector<RunPlan> plan_runs(const std::vector<Config>& configs, const PlannedModel& model,
                               const std::function<int64_t(const Config&)>& available_bytes) {
  std::vector<RunPlan> plans;
  for (const Config& config : configs) plans.push_back(plan_steps(config, model));
  const StepBounds bounds = bounds_of_all(plans);
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].memory =
        make_memory_plan(configs[i], plans[i], model, bounds, available_bytes(configs[i]));
  }
  return plans;
}

}  // namespace pagedinfer
