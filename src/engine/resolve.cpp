#include "engine/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "io/file_names.h"

namespace pagedinfer {
namespace {

std::string without_ending(std::string_view path) {
  for (const std::string_view ending : {".gz", ".jsonl"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return std::string(path);
}

// The step that the flags given ask for, and the batch that fits it. Decodes come first and
// there are at most max_batch_size of them: what is left in a step must hold a token of a
// prompt some day or, where prompts are computed whole, the longest one.
void resolve_step(const Config& config, int max_model_len, int usual_step_tokens,
                  Resolved& resolved) {
  const int prompt = resolved.chunked_prefill ? 0 : max_model_len;
  resolved.max_batch_size = config.max_batch_size.value_or(kDefaultBatchSize);
  if (!config.max_step_tokens) {
    const int needed = resolved.max_batch_size + prompt;
    resolved.max_step_tokens = prompt == 0 ? std::max(needed, usual_step_tokens) : needed;
    return;
  }
  resolved.max_step_tokens = *config.max_step_tokens;
  const int room = resolved.max_step_tokens - prompt;
  if (room >= resolved.max_batch_size) return;
  if (config.max_batch_size || room < 1) {
    throw Error(fmt::format(
        "--max-step-tokens {}: prompts computed whole need room for {} tokens (--max-model-len {} "
        "+ --max-batch-size {}); raise it, or turn --chunked-prefill on",
        resolved.max_step_tokens, prompt + resolved.max_batch_size, max_model_len,
        resolved.max_batch_size));
  }
  resolved.max_batch_size = room;
  resolved.notes.push_back(fmt::format("max_batch_size is {} because a step has {} tokens", room,
                                       resolved.max_step_tokens));
}

}  // namespace

Paths resolve_paths(const Config& config) {
  Paths paths = {.output = config.output, .stats = config.stats};
  std::string name = without_ending(config.input);
  if (config.shard) name += fmt::format(".{}-of-{}", config.shard->index, config.shard->count);
  if (paths.output.empty()) {
    paths.output = config.input == "-" ? "-" : name + ".completions.jsonl";
  }
  if (paths.stats.empty() && config.input != "-" && !is_standard_output(paths.output)) {
    paths.stats = name + ".stats.jsonl";
  }
  return paths;
}

Resolved resolve(const Config& config, int max_model_len, int usual_step_tokens) {
  Resolved resolved;
  const bool is_static = config.batching == Config::Batching::kStatic;
  resolved.kv = config.kv.value_or(is_static ? Config::Kv::kContiguous : Config::Kv::kPaged);
  resolved.block_size = config.block_size.value_or(kDefaultBlockSize);
  resolved.chunked_prefill = config.chunked_prefill.value_or(!is_static);
  resolved.prefill_chunk_size = config.prefill_chunk_size.value_or(kDefaultPrefillChunkSize);
  resolve_step(config, max_model_len, usual_step_tokens, resolved);
  if (is_static && !config.kv) {
    resolved.notes.push_back("kv is contiguous because batching is static");
  }
  if (is_static && !config.chunked_prefill) {
    resolved.notes.push_back("chunked_prefill is off because batching is static");
  }
  return resolved;
}

}  // namespace pagedinfer
