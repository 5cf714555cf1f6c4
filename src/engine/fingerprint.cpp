#include "engine/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <string>
#include <string_view>

#include "core/hash.h"
#include "core/json.h"
#include "engine/model_path.h"
#include "io/mapped_file.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

constexpr size_t kSampleBytes = 64 << 10;
constexpr size_t kNumSamples = 16;  // of each file with weights
constexpr size_t kMaxHeaderBytes = 16 << 20;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string whole_file(const std::string& path) {
  const MappedFile file(path);
  return fmt::format("{:016x}", hash_bytes(0, text_of(file)));
}

// Weights of another training differ everywhere: samples tell them apart.
std::string weights_file(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = text_of(file);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), std::min(text.size(), sizeof header_bytes));
  uint64_t hash = hash_bytes(0, text.substr(0, 8 + std::min(header_bytes, kMaxHeaderBytes)));
  const size_t stride = std::max(kSampleBytes, text.size() / kNumSamples);
  for (size_t begin = 0; begin < text.size(); begin += stride) {
    hash = hash_bytes(hash, text.substr(begin, kSampleBytes));
  }
  hash = hash_bytes(hash, text.substr(text.size() - std::min(text.size(), kSampleBytes)));
  return fmt::format("{} bytes, {:016x}", text.size(), hash);
}

void add_model(Fingerprint& fingerprint, const std::string& dir,
               const std::vector<std::string>& weights) {
  for (const std::string_view name : kModelFiles) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (file_exists(path)) fingerprint.set(name, whole_file(path));
  }
  for (const std::string& path : weights) {
    fingerprint.set(path.substr(path.rfind('/') + 1), weights_file(path));
  }
}

}  // namespace

Fingerprint fingerprint_of(const Config& config, const Setup& setup) {
  Fingerprint fingerprint;
  const auto number = [&](std::string_view name, auto value) {
    std::string text;
    append_json_number(text, value);
    fingerprint.set(name, text);
  };
  const auto on_off = [&](std::string_view name, bool on) {
    fingerprint.set(name, on ? "on" : "off");
  };
  fingerprint.set("model", setup.model_name);  // records name it
  fingerprint.set("weights", config.weights == Config::Weights::kDummy ? "dummy" : "auto");
  add_model(fingerprint, setup.model_dir, setup.model.checkpoint.paths());
  fingerprint.set("device", setup.backend->info.name);
  if (!setup.backend->info.always_deterministic) {
    on_off("deterministic", config.deterministic);
    // GPUs of another kind, or another cuBLAS, add up in another order.
    if (config.deterministic) fingerprint.set("gpu", setup.ops->arithmetic_name());
  }
  fingerprint.set("dtype", name_of(setup.options.compute));
  number("max-model-len", setup.max_model_len);

  const SamplingParams& sampling = setup.defaults;
  number("max-tokens", sampling.max_tokens);
  number("min-tokens", sampling.min_tokens);
  number("temperature", sampling.temperature);
  number("top-k", sampling.top_k);
  number("top-p", sampling.top_p);
  number("min-p", sampling.min_p);
  number("repetition-penalty", sampling.repetition_penalty);
  number("presence-penalty", sampling.presence_penalty);
  number("frequency-penalty", sampling.frequency_penalty);
  number("seed", sampling.seed);
  on_off("ignore-eos", sampling.ignore_eos);
  std::string list;
  for (const std::string& stop : sampling.stop) append_json_string(list, stop);
  fingerprint.set("stop", list);
  list.clear();
  for (const TokenId token : sampling.stop_token_ids) list += fmt::format(" {}", token);
  fingerprint.set("stop-token-ids", list);

  on_off("chat", config.chat);
  fingerprint.set("chat-template", chat_template_name(setup.chat.format));
  fingerprint.set("chat-date", config.chat_date);
  list.clear();
  if (config.system) append_json_string(list, *config.system);
  fingerprint.set("system", list);
  fingerprint.set("prompt-field", config.prompt_field);
  on_off("strict", config.strict);
  if (config.shard) {
    fingerprint.set("shard", fmt::format("{}/{}", config.shard->index, config.shard->count));
  }
  fingerprint.set("order", config.order == Config::Order::kCompletion ? "completion" : "input");
  on_off("token-ids", config.token_ids);
  on_off("record-timing", config.record_timing);
  return fingerprint;
}

}  // namespace pagedinfer
