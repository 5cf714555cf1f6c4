#include "commands/info/model_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "load/backends.h"
#include "load/model_path.h"
#include "load/open_store.h"
#include "load/quantization.h"
#include "load/sampling_defaults.h"
#include "settings/rules.h"
#include "settings/table.h"
#include "settings/values.h"
#include "text/files/tokenizer_config.h"

namespace pagedinfer {
namespace {

// Fills in the types of computation and of the cache. --dtype auto is the checkpoint's type or, if
// config.json does not name it, the type of the largest part of the weights.
void find_types(const Config& config, ModelInfo& info) {
  std::optional<DType> stored = info.model.dtype;
  if (!stored && !info.model.stored.empty()) {
    const std::string& type = info.model.stored.front().type;
    for (const auto& [name, dtype] :
         {std::pair("F32", DType::kF32), {"F16", DType::kF16}, {"BF16", DType::kBF16}}) {
      if (type == name || type == name_of(dtype)) stored = dtype;
    }
  }
  const std::optional<DType> asked = config.dtype ? config.dtype : stored;
  if (!asked) return;
  const BackendInfo& backend = choose_backend(config.device).row.info;
  const DeviceOptions used = backend.resolve({.compute = *asked, .cache = *asked});
  const Quantization quantize = choose_quantization(config.quantize, info.model.has_codes, backend);
  info.compute = fmt::format("{} on {}", name_of(used.compute), backend.name);
  const std::string weights =
      weights_text(quantize, info.model.has_codes, info.model.num_merged, used.compute);
  if (!weights.empty()) info.compute += ", " + weights;
  info.cache = name_of(used.cache);
}

void read_tokenizer(ModelInfo& info) {
  Problems& problems = info.problems;
  problems.keep([&] { info.tokenizer_kind = tokenizer_kind(info.store); });
  problems.keep([&] { info.tokenizer = make_tokenizer(info.store); });
  const Tokenizer* const tokenizer = info.tokenizer.get();
  problems.keep([&] {
    for (const auto& [name, text] : read_tokenizer_config(info.store).spellings) {
      const auto id = tokenizer == nullptr ? std::nullopt : tokenizer->find_token(text);
      info.special_tokens.push_back({name, text, id});
    }
  });
  if (info.tokenizer_kind.file.empty()) {
    info.notes.emplace_back(
        "there is no tokenizer (tokenizer.json or tokenizer.model): prompts are prompt_token_ids, "
        "and completions have no text");
  }
  if (tokenizer == nullptr) return;
  info.num_tokens = tokenizer->vocab_size();
  const int vocab = info.model.spec.vocab;
  if (vocab > 0) problems.keep([&] { check_vocabulary(info.store, *tokenizer, vocab); });
}

void read_chat(const Config& config, ModelInfo& info) {
  const Tokenizer* const tokenizer = info.tokenizer.get();
  try {
    info.chat = make_chat_settings(config, info.store, tokenizer);
  } catch (const Error& error) {
    info.problems.add(error.what());
    info.chat.format.problem = error.what();  // every conversation gets this error
    info.chat.rows = row_template_of(config);
    return;
  }
  info.problems.keep([&] { check_chat(info.chat, info.store, tokenizer); });
  const ChatFormat& format = info.chat.format;
  if (!format.problem.empty()) info.notes.push_back(format.problem);
  for (const std::string& fault : format.faults) {
    if (!fault.empty() && fault != format.problem) info.notes.push_back(fault);
  }
  RequestDraft draft;
  draft.has_messages = true;
  draft.chat.messages = R"([{"role":"user","content":"What is 3 + 4?"},)"
                        R"({"role":"assistant","content":"7"},)"
                        R"({"role":"user","content":"And 5 more?"}])";
  Result<RenderedChat> prompt = make_prompt_text(draft, info.chat);
  if (prompt) {
    info.example = std::move(prompt->text);
  } else if (format.problem.empty()) {
    info.notes.push_back(
        fmt::format("of a plain conversation there is no prompt: {}", prompt.error().message));
  }
}

NamedToken token_of(TokenId id, const Tokenizer* tokenizer) {
  NamedToken token = {.id = id};
  if (tokenizer == nullptr) return token;
  token.text = tokenizer->special_text(id);
  if (token.text.empty()) token.text = tokenizer->token_bytes(id);
  return token;
}

void add_ends(ModelInfo& info) {
  const Tokenizer* const tokenizer = info.tokenizer.get();
  for (const TokenId id : info.model.spec.eos_tokens) {
    info.ends.push_back(token_of(id, tokenizer));
  }
  for (const TokenId id : info.chat.ends_of_turn) {
    info.ends_of_turn.push_back(token_of(id, tokenizer));
  }
}

void add_generation(const Config& config, ModelInfo& info) {
  const GenerationDefaults& generation = info.model.generation;
  const ModelSpec& spec = info.model.spec;
  const bool has_tokenizer = info.tokenizer != nullptr;
  info.defaults = default_sampling(config.sampling, generation, has_tokenizer);
  const auto add = [&](std::string_view key, std::string value) {
    info.generation.emplace_back(key, std::move(value));
  };
  for (const Setting& setting : kSettings) {
    if (!generation.sampling.has(setting.key)) continue;
    add(setting.key, text_of(setting, setting.field.get_sampling(info.defaults)));
  }
  const LengthFloor& floor = info.defaults.floor;
  if (floor.tokens > 0) add("min_new_tokens", std::to_string(floor.tokens));
  if (floor.with_prompt > 0) add("min_length", std::to_string(floor.with_prompt));
  const auto add_tokens = [&](std::string_view key, const std::vector<TokenId>& tokens) {
    if (!tokens.empty()) add(key, fmt::format("{}", fmt::join(tokens, " ")));
  };
  add_tokens("suppress_tokens", spec.suppressed);
  add_tokens("begin_suppress_tokens", spec.suppressed_first);
  if (spec.forced_end) add("forced_eos_token_id", std::to_string(*spec.forced_end));
  const auto notes = generation_notes(config.sampling, generation, has_tokenizer);
  info.notes.insert(info.notes.end(), notes.begin(), notes.end());
}

}  // namespace

ModelInfo describe_model(const Config& config) {
  const std::string dir = find_model(config.model, program_path());
  ModelInfo info = {.store = open_store(dir), .name = name_of_model(dir)};
  const auto source =
      config.weights == Config::Weights::kDummy ? WeightSource::kDummy : WeightSource::kFiles;
  info.model = inspect_model(info.store, source, info.problems, config.lora.value_or(""));
  info.problems.keep([&] { check_adapter(config); });
  info.problems.keep([&] { find_types(config, info); });
  info.problems.keep([&] {
    const ModelSpec& spec = info.model.spec;
    check_sizes(choose_backend(config.device).row.info, spec);
  });
  info.notes = info.model.weight_notes;
  read_tokenizer(info);
  read_chat(config, info);
  add_ends(info);
  add_generation(config, info);
  return info;
}

}  // namespace pagedinfer
