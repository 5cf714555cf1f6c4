#include "engine/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace pagedinfer {
namespace {

std::string without_ending(const std::string& path) {
  constexpr std::string_view kEnding = ".jsonl";
  return path.ends_with(kEnding) ? path.substr(0, path.size() - kEnding.size()) : path;
}

// Decodes come first and there are at most max_batch_size of them, so this much room makes
// sure that the longest prompt gets into a step some day.
int whole_prompt_tokens(const Config& config, int max_model_len) {
  return max_model_len + config.max_batch_size;
}

int step_tokens(const Config& config, bool chunked_prefill, int max_model_len) {
  if (chunked_prefill) {
    return config.max_step_tokens.value_or(std::max(config.max_batch_size, kDefaultStepTokens));
  }
  const int needed = whole_prompt_tokens(config, max_model_len);
  const int tokens = config.max_step_tokens.value_or(needed);
  if (tokens < needed) {
    throw Error(fmt::format(
        "--max-step-tokens {}: prompts computed whole need room for {} tokens (--max-model-len {} "
        "+ --max-batch-size {}); raise it, or turn --chunked-prefill on",
        tokens, needed, max_model_len, config.max_batch_size));
  }
  return tokens;
}

}  // namespace

Paths resolve_paths(const Config& config) {
  Paths paths = {.output = config.output, .stats = config.stats};
  if (paths.output.empty()) {
    paths.output = config.input == "-" ? "-" : without_ending(config.input) + ".completions.jsonl";
  }
  if (paths.stats.empty() && config.input != "-" && paths.output != "-") {
    paths.stats = without_ending(config.input) + ".stats.jsonl";
  }
  return paths;
}

Resolved resolve(const Config& config, int max_model_len) {
  Resolved resolved;
  resolved.kv =
      config.kv.value_or(config.static_batching ? Config::Kv::kContiguous : Config::Kv::kPaged);
  resolved.block_size = config.block_size.value_or(kDefaultBlockSize);
  resolved.chunked_prefill = config.chunked_prefill.value_or(!config.static_batching);
  resolved.prefill_chunk_size = config.prefill_chunk_size.value_or(kDefaultPrefillChunkSize);
  resolved.max_step_tokens = step_tokens(config, resolved.chunked_prefill, max_model_len);
  if (config.static_batching && !config.kv) {
    resolved.notes.push_back("kv is contiguous because batching is static");
  }
  if (config.static_batching && !config.chunked_prefill) {
    resolved.notes.push_back("chunked_prefill is off because batching is static");
  }
  return resolved;
}

}  // namespace pagedinfer
