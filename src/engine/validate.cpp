#include "engine/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/sampling_ranges.h"
#include "core/shortened.h"
#include "engine/backends.h"
#include "engine/model_path.h"
#include "engine/resolve.h"
#include "io/file_names.h"
#include "request/request_parser.h"
#include "text/chat/chat_template.h"

namespace pagedinfer {
namespace {

template <class T>
void at_least(const char* flag, const std::optional<T>& value, T least) {
  if (value && *value < least) {
    throw Error(fmt::format("{} {}: expected {} or more", flag, *value, least));
  }
}

// NaN is in no range.
template <class T>
void within(const char* flag, const std::optional<T>& value, T least, T most) {
  if (value && !(*value >= least && *value <= most)) {
    throw Error(fmt::format("{} {}: expected {} to {}", flag, *value, least, most));
  }
}

template <class T, class Range>
void within(const char* flag, const std::optional<T>& value, Range range) {
  if (value && !range.contains(*value)) {
    throw Error(fmt::format("{} {}: expected {}", flag, *value, text_of(range)));
  }
}

void check_device(const Config& config) {
  if (config.model.empty()) throw Error("--model: expected a directory or a bundled model's name");
  at_least("--max-model-len", config.max_model_len, 2);  // a token in, a token out
  const std::optional<double>& share = config.gpu_memory_utilization;
  if (share && !(*share > 0 && *share <= 1)) {
    throw Error(
        fmt::format("--gpu-memory-utilization {}: expected more than 0 and at most 1", *share));
  }
  if (share && config.device == Config::Device::kCpu) {
    throw Error("--gpu-memory-utilization: --device cpu uses no GPU; leave one of them out");
  }
  if (config.device != Config::Device::kAuto) {
    const BackendInfo& backend = backend_of(config.device).info;
    if (const std::string problem = backend.problem(); !problem.empty()) {
      throw Error(
          fmt::format("--device {}: {}; --device cpu works without", backend.name, problem));
    }
  }
  within("--threads", config.threads, 1, 4096);
}

void check_utf8(const char* flag, std::string_view text) {
  while (const int length = utf8_length(text)) text.remove_prefix(static_cast<size_t>(length));
  if (!text.empty()) throw Error(fmt::format("{}: expected a text in UTF-8", flag));
}

void check_chat(const Config& config) {
  const std::string& name = config.chat_template;
  if (!name.empty() && name != "none" && find_chat_template(name) == nullptr) {
    throw Error(fmt::format("--chat-template {}: expected none or one of {}", shortened(name),
                            chat_template_names()));
  }
  if (config.chat && name == "none") {
    throw Error("--chat: --chat-template none leaves it no template; leave one of them out");
  }
  check_utf8("--system", config.system.value_or(""));
  check_utf8("--served-model-name", config.served_model_name.value_or(""));
  if (config.served_model_name == "") {
    throw Error("--served-model-name \"\": expected a name that is not empty");
  }
  check_utf8("--chat-date", config.chat_date);
}

void check_cache(const Config& config) {
  within("--block-size", config.block_size, 1, 65536);
  at_least<int64_t>("--num-blocks", config.num_blocks, 1);
  at_least<int64_t>("--kv-memory", config.kv_memory, 1);
  if (config.num_blocks && config.kv_memory) {
    throw Error("--num-blocks and --kv-memory both set the size of the cache: give one of them");
  }
}

void check_scheduling(const Config& config) {
  const bool is_static = config.batching == Config::Batching::kStatic;
  const bool chunks_off = config.chunked_prefill.has_value() && !*config.chunked_prefill;
  at_least("--max-batch-size", config.max_batch_size, 1);
  at_least("--prefill-chunk-size", config.prefill_chunk_size, 1);
  at_least("--max-prefill-chunks", config.max_prefill_chunks, 1);
  at_least("--max-step-tokens", config.max_step_tokens, 1);
  if (!(config.admission_reserve >= 0 && config.admission_reserve < 1)) {
    throw Error(fmt::format("--admission-reserve {}: expected 0 or more and less than 1",
                            config.admission_reserve));
  }
  if (is_static && config.kv == Config::Kv::kPaged) {
    throw Error(
        "--kv paged: static batching reserves contiguous memory; leave --kv out, or use "
        "--batching continuous");
  }
  if (is_static && config.chunked_prefill.value_or(false)) {
    throw Error(
        "--chunked-prefill on: static batching computes prompts whole; leave it out, or use "
        "--batching continuous");
  }
  if (config.prefill_chunk_size && (chunks_off || is_static)) {
    throw Error(fmt::format(
        "--prefill-chunk-size {}: there are no chunks with {}; leave one of them out",
        *config.prefill_chunk_size, chunks_off ? "--chunked-prefill off" : "--batching static"));
  }
  if (config.max_step_tokens && config.max_batch_size &&
      *config.max_step_tokens < *config.max_batch_size) {
    throw Error(fmt::format(
        "--max-step-tokens {}: each of --max-batch-size {} sequences needs a token in every step; "
        "raise the one or lower the other",
        *config.max_step_tokens, *config.max_batch_size));
  }
  // What is left is about the model's length; without --max-model-len it comes after loading.
  if (config.max_model_len) resolve(config, *config.max_model_len, 0);
}

void check_sampling(const Config::Sampling& sampling) {
  within("--max-tokens", sampling.max_tokens, kMaxTokensRange);
  within("--min-tokens", sampling.min_tokens, kMinTokensRange);
  const int max_tokens = sampling.max_tokens.value_or(SamplingParams{}.max_tokens);
  if (sampling.min_tokens && *sampling.min_tokens > max_tokens) {
    throw Error(
        fmt::format("--min-tokens {}: more than --max-tokens {}; raise the one or lower "
                    "the other",
                    *sampling.min_tokens, max_tokens));
  }
  within("--temperature", sampling.temperature, kTemperatureRange);
  within("--top-k", sampling.top_k, kTopKRange);
  within("--top-p", sampling.top_p, kTopPRange);
  within("--min-p", sampling.min_p, kMinPRange);
  within("--repetition-penalty", sampling.repetition_penalty, kRepetitionPenaltyRange);
  within("--presence-penalty", sampling.presence_penalty, kPresencePenaltyRange);
  within("--frequency-penalty", sampling.frequency_penalty, kFrequencyPenaltyRange);
  for (const std::string& stop : sampling.stop) {
    if (stop.empty()) throw Error("--stop \"\": expected a text that is not empty");
  }
  for (const TokenId token : sampling.stop_token_ids) {
    at_least("--stop-token-ids", std::optional(token), 0);
  }
}

// A file that a flag names, or that a run makes beside one.
struct Role {
  const char* flag;
  std::string path;
  const char* whose = "names";  // what the flag does with it
};

void check_resume(const Config& config, const Paths& paths) {
  if (!(config.sync_every >= 0 && config.sync_every <= 86400)) {
    throw Error(fmt::format("--sync-every {}: expected 0 to 86400 seconds", config.sync_every));
  }
  if (config.retry_errors && !config.resume) {
    throw Error("--retry-errors: there are no errors to retry without --resume; give both");
  }
  if (!config.resume) return;
  if (config.overwrite) {
    throw Error("--resume keeps what --overwrite discards: give one of them");
  }
  if (is_stream(config.input)) {
    throw Error(fmt::format(
        "--resume: --input {} cannot be read a second time from its start; put it into a file",
        config.input));
  }
  if (is_stream(paths.output)) {
    throw Error(fmt::format(
        "--resume: --output {} does not keep what was written to it; give a file", paths.output));
  }
}

// Every file that the run opens or makes, the model's but for its weights.
std::vector<Role> roles_of(const Config& config, const Paths& paths) {
  std::vector<Role> roles = {{"--output", paths.output}};
  if (!is_stream(paths.output)) {
    roles.push_back({"--output", part_of(paths.output), "makes beside its file"});
    roles.push_back({"--output", run_of(paths.output), "makes beside its file"});
  }
  if (config.input != "-") roles.push_back({"--input", config.input});
  if (!paths.stats.empty()) roles.push_back({"--stats", paths.stats});
  if (!config.trace.empty()) roles.push_back({"--trace", config.trace});
  return roles;
}

// The directory of the model, or nothing: whoever loads it says why.
std::optional<std::string> model_of(const Config& config) {
  try {
    return find_model(config.model, program_path());
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_of_model(const std::string& path, const std::string& dir) {
  namespace fs = std::filesystem;
  if (fs::path(path).extension() == ".safetensors" &&
      same_file(dir + "/config.json", (fs::path(path).parent_path() / "config.json").string())) {
    return true;
  }
  return std::any_of(std::begin(kModelFiles), std::end(kModelFiles), [&](std::string_view name) {
    return same_file(path, (fs::path(dir) / name).string());
  });
}

void check_roles(const Config& config, const Paths& paths) {
  const std::vector<Role> roles = roles_of(config, paths);
  const std::optional<std::string> model = model_of(config);
  for (size_t i = 0; i < roles.size(); ++i) {
    const Role& role = roles[i];
    for (size_t j = 0; j < i; ++j) {
      if (!same_file(role.path, roles[j].path)) continue;
      throw Error(fmt::format("{} {}: is what {} {}; give one of them another name", role.flag,
                              shortened(role.path), roles[j].flag, roles[j].whose));
    }
    if (model && role.path != config.input && is_of_model(role.path, *model)) {
      throw Error(fmt::format("{} {}: is a file of --model {}; give another name", role.flag,
                              shortened(role.path), shortened(*model)));
    }
  }
}

void check_files(const Config& config) {
  if (config.input.empty()) {
    throw Error(
        "--input: expected a file of prompts, one JSON object a line, or - for standard "
        "input");
  }
  if (config.prompt_field.empty()) throw Error("--prompt-field: expected a key that is not empty");
  if (!may_name_prompt(config.prompt_field)) {
    throw Error(fmt::format(
        "--prompt-field {0}: a line's {0} says something else; expected the key of its prompt",
        config.prompt_field));
  }
  at_least<int64_t>("--limit", config.limit, 1);
  const Paths paths = resolve_paths(config);
  check_resume(config, paths);
  if (config.profile && config.quiet && paths.stats.empty()) {
    throw Error("--profile: with --quiet and no --stats nobody would see it; leave --quiet out");
  }
  check_roles(config, paths);
}

}  // namespace

void validate(const Config& config) {
  check_device(config);
  check_chat(config);
  check_cache(config);
  check_scheduling(config);
  check_sampling(config.sampling);
  check_files(config);
}

}  // namespace pagedinfer
