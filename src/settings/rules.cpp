#include "settings/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/refusal.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

bool is_static(const Config& config) { return config.batching == Config::Batching::kStatic; }

void check_job(const Config& config) {
  if (config.retry_errors && !config.resume) {
    throw Error("--retry-errors: there are no errors to retry without --resume; give both");
  }
  if (config.resume && config.overwrite) {
    throw Error("--resume keeps what --overwrite discards: give one of them");
  }
  const bool has_messages = !config.message_template.empty();
  if (config.prompt_template && has_messages) {
    throw Error(
        "--prompt-template and --message-template both make the prompts: give one of them; with "
        "--chat the one makes a user message");
  }
  if ((config.prompt_template || has_messages) && config.prompt_field != Config{}.prompt_field) {
    throw Error(fmt::format("--prompt-field {}: {} makes the prompts; leave one of them out",
                            shortened(config.prompt_field),
                            has_messages ? "--message-template" : "--prompt-template"));
  }
  if (config.chat && config.chat_template == "none") {
    throw Error("--chat: --chat-template none leaves it no template; leave one of them out");
  }
}

// The flag that makes the run reserve memory; "" if none does.
std::string_view reservations_of(const Config& config) {
  if (config.kv == Config::Kv::kContiguous) return "--kv contiguous";
  return is_static(config) ? "--batching static" : "";
}

void check_memory(const Config& config) {
  if (config.gpu_memory_utilization.is_given && config.device == Config::Device::kCpu) {
    throw Error("--gpu-memory-utilization: --device cpu uses no GPU; leave one of them out");
  }
  if (config.num_blocks && config.kv_memory) {
    throw Error("--num-blocks and --kv-memory both set the size of the cache: give one of them");
  }
  const std::string_view reservations = reservations_of(config);
  if (reservations.empty()) return;
  const std::string_view instead =
      config.kv == Config::Kv::kContiguous ? "--kv paged" : "--batching continuous";
  if (config.prefix_cache.is_given && config.prefix_cache) {
    throw Error(
        fmt::format("--prefix-cache on: reservations of {} share nothing; leave it out, or use {}",
                    reservations, instead));
  }
  if (config.admission_reserve.is_given) {
    throw Error(fmt::format(
        "--admission-reserve {}: reservations of {} do not grow; leave it out, or use {}",
        config.admission_reserve.value, reservations, instead));
  }
}

void check_scheduling(const Config& config) {
  const OrDefault<bool>& chunks = config.chunked_prefill;
  const bool chunks_off = chunks.is_given && !chunks;
  if (is_static(config) && config.kv.is_given && config.kv == Config::Kv::kPaged) {
    throw Error(
        "--kv paged: static batching reserves contiguous memory; leave --kv out, or use "
        "--batching continuous");
  }
  if (is_static(config) && chunks.is_given && chunks) {
    throw Error(
        "--chunked-prefill on: static batching computes prompts whole; leave it out, or use "
        "--batching continuous");
  }
  if (config.prefill_chunk_size.is_given && (chunks_off || is_static(config))) {
    throw Error(
        fmt::format("--prefill-chunk-size {}: there are no chunks with {}; leave one of them out",
                    config.prefill_chunk_size.value,
                    chunks_off ? "--chunked-prefill off" : "--batching static"));
  }
  if (config.max_step_tokens && config.max_batch_size.is_given &&
      *config.max_step_tokens < config.max_batch_size) {
    throw Error(fmt::format(
        "--max-step-tokens {}: each of --max-batch-size {} sequences needs a token in every step; "
        "raise the one or lower the other",
        *config.max_step_tokens, config.max_batch_size.value));
  }
  // The other rules need the model's length. Without --max-model-len they are checked after
  // loading.
  if (config.max_model_len) resolve(config, *config.max_model_len, 0);
}

void check_form(const Config& config) {
  std::vector<std::string_view> given;
  if (config.json_schema) given.push_back("--json-schema");
  if (config.regex) given.push_back("--regex");
  if (!config.choices.empty()) given.push_back("--choices");
  if (config.grammar) given.push_back("--grammar");
  if (given.size() > 1) {
    throw Error(fmt::format("{} and {} both say which form answers have: give one of them",
                            given[0], given[1]));
  }
  if (config.choices.size() == 1) {
    throw Error(
        fmt::format("--choices {}: found one choice, expected several; give the flag once "
                    "for each of them",
                    shortened(config.choices[0])));
  }
}

void check_sampling(const SamplingParams& sampling) {
  const Result<> checked =
      check_together(sampling, [](std::string_view key) { return flag_of(*find_setting(key)); });
  if (!checked) throw Error(checked.error().message);
}

// Sets max_step_tokens, and a max_batch_size that fits it. A step must have room for max_batch_size
// decodes and, if prompts are computed whole, for the longest prompt.
void resolve_step(int max_model_len, int usual_step_tokens, Resolved& resolved) {
  Config& config = resolved.config;
  const int prompt = config.chunked_prefill ? 0 : max_model_len;
  if (!config.max_step_tokens) {
    const int64_t needed = int64_t{config.max_batch_size} + prompt;
    if (needed > kMaxCount) {
      throw Error(fmt::format(
          "--max-batch-size {}: prompts computed whole need steps of {} tokens (--max-model-len {} "
          "more), and a step has at most {}; lower it, or turn --chunked-prefill on",
          config.max_batch_size.value, needed, max_model_len, kMaxCount));
    }
    const int usual = prompt == 0 ? usual_step_tokens : 0;
    config.max_step_tokens = std::max(static_cast<int>(needed), usual);
    return;
  }
  const int room = *config.max_step_tokens - prompt;
  if (room >= config.max_batch_size) return;
  if (config.max_batch_size.is_given || room < 1) {
    throw Error(fmt::format(
        "--max-step-tokens {}: prompts computed whole need room for {} tokens (--max-model-len {} "
        "+ --max-batch-size {}); raise it, or turn --chunked-prefill on",
        *config.max_step_tokens, int64_t{prompt} + config.max_batch_size, max_model_len,
        config.max_batch_size.value));
  }
  config.max_batch_size.value = room;
  resolved.notes.push_back(fmt::format("max_batch_size is {} because a step has {} tokens", room,
                                       *config.max_step_tokens));
}

}  // namespace

void check_adapter(const Config& config) {
  if (!config.lora || config.weights != Config::Weights::kDummy) return;
  throw Error(
      "--lora: the weights of --weights dummy are none that an adapter was trained for; leave one "
      "of them out");
}

Result<> check_together(const SamplingParams& sampling,
                        const std::function<std::string(std::string_view)>& name_of) {
  const int best_of = sampling.best_of.value_or(sampling.n);
  if (best_of < sampling.n) {
    return {"invalid_value",
            refusal(name_of("best_of"), std::to_string(best_of),
                    fmt::format("at least {}, which is {}", name_of("n"), sampling.n))};
  }
  if (sampling.min_tokens > sampling.max_tokens) {
    return {"invalid_value", refusal(name_of("min_tokens"), std::to_string(sampling.min_tokens),
                                     fmt::format("at most {}, which is {}", name_of("max_tokens"),
                                                 sampling.max_tokens))};
  }
  return {};
}

void check_rules(const Config& config) {
  check_memory(config);
  check_job(config);
  check_adapter(config);
  check_scheduling(config);
  check_form(config);
  check_sampling(config.sampling.values);
}

Resolved resolve(const Config& config, int max_model_len, int usual_step_tokens) {
  Resolved resolved = {.config = config};
  if (is_static(config) && !config.kv.is_given) {
    resolved.config.kv.value = Config::Kv::kContiguous;
    resolved.notes.push_back("kv is contiguous because batching is static");
  }
  if (is_static(config) && !config.chunked_prefill.is_given) {
    resolved.config.chunked_prefill.value = false;
    resolved.notes.push_back("chunked_prefill is off because batching is static");
  }
  if (resolved.config.kv == Config::Kv::kContiguous && resolved.config.prefix_cache) {
    resolved.config.prefix_cache.value = false;
    resolved.notes.push_back("prefix_cache is off because kv is contiguous");
  }
  resolve_step(max_model_len, usual_step_tokens, resolved);
  return resolved;
}

}  // namespace pagedinfer
