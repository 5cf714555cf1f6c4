#include "model/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "io/json_file.h"
#include "settings/json_value.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxShown = 60;

// A key that changes completions in transformers and is not supported here. It has no effect if its
// value is `neutral`, null, false or empty.
struct UnsupportedKey {
  std::string_view key;
  std::optional<double> neutral = {};
};
constexpr UnsupportedKey kUnsupportedKeys[] = {{"constraints"},
                                               {"diversity_penalty", 0},
                                               {"dola_layers"},
                                               {"encoder_no_repeat_ngram_size", 0},
                                               {"encoder_repetition_penalty", 1},
                                               {"epsilon_cutoff", 0},
                                               {"eta_cutoff", 0},
                                               {"exponential_decay_length_penalty"},
                                               {"force_words_ids"},
                                               {"forced_bos_token_id"},
                                               {"guidance_scale", 1},
                                               {"max_time"},
                                               {"no_repeat_ngram_size", 0},
                                               {"num_beam_groups", 1},
                                               {"num_beams", 1},
                                               {"num_return_sequences", 1},
                                               {"penalty_alpha", 0},
                                               {"sequence_bias"},
                                               {"token_healing"},
                                               {"top_h"},
                                               {"typical_p", 1},
                                               {"watermarking_config"}};

bool has_no_effect(element value, std::optional<double> neutral) {
  double number = 0;
  if (value.is_bool()) return !bool(value);
  if (value.is_array()) return simdjson::dom::array(value).size() == 0;
  if (value.is_object()) return simdjson::dom::object(value).size() == 0;
  return neutral && value.get(number) == simdjson::SUCCESS && number == *neutral;
}

std::string shown(element value) {
  const std::string text = simdjson::minify(value);
  return text.size() <= kMaxShown ? text : "...";
}

void add_unsupported(GenerationDefaults& defaults, std::string_view what) {
  defaults.unsupported += fmt::format("{}{}", defaults.unsupported.empty() ? "" : ", ", what);
}

// The token ids of the list that are in the vocabulary. Others are ignored, as in transformers.
std::vector<TokenId> known_tokens(const JsonObject& from, std::string_view key, int vocab) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  std::vector<TokenId> tokens;
  for (const int64_t id : from.integers(key, kMin, std::numeric_limits<int64_t>::max())) {
    if (id >= 0 && id < vocab) tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

// Bans the words of one token, except end-of-sequence tokens. Longer words are not supported:
// whether they are banned depends on the tokens before, which may still be placeholders when a step
// is planned.
void read_bad_words(const JsonObject& from, GenerationDefaults& defaults, ModelSpec& spec) {
  constexpr std::string_view kKey = "bad_words_ids";
  const auto value = from.find(kKey);
  simdjson::dom::array words, word;
  if (!value) return;
  if (value->get(words) != simdjson::SUCCESS) from.refuse(kKey, *value, "a list of lists");
  int64_t num_long = 0, token = 0;
  for (const element item : words) {
    if (item.get(word) != simdjson::SUCCESS) from.refuse(kKey, item, "a list of lists");
    if (word.size() > 1) ++num_long;
    if (word.size() != 1) continue;
    if (word.at(0).get(token) != simdjson::SUCCESS || token < 0 || token >= spec.vocab) {
      from.refuse(kKey, item, fmt::format("token ids from 0 to {}", spec.vocab - 1));
    }
    const auto id = static_cast<TokenId>(token);
    if (std::ranges::count(spec.eos_tokens, id) == 0) spec.suppressed.push_back(id);
  }
  if (num_long > 0) add_unsupported(defaults, "bad_words_ids of several tokens");
}

// Every setting that the file may say. Without do_sample it is greedy, whatever its temperature.
GivenSampling read_settings(const JsonObject& from, bool samples) {
  GivenSampling sampling;
  if (samples) give(*find_setting("temperature"), 1.0, sampling);
  for (const Setting& setting : kSettings) {
    const std::string_view key = setting.generation_key;
    if (key.empty() || (key == "temperature" && !samples)) continue;
    const auto json = from.find(key);
    if (!json) continue;
    element wrong;
    const auto value = read_json(setting, *json, wrong);
    from.keep([&] {
      if (!value) from.refuse(key, wrong, expected_of(setting));
      give(setting, *value, sampling);
    });
  }
  return sampling;
}

// A number of tokens that is only mentioned in a note; nullopt if it is not a valid one.
std::optional<int64_t> find_length(const JsonObject& from, std::string_view key) {
  constexpr IntegerRange kLengths = {1, kMaxCount};
  const auto value = from.find(key);
  double number = 0;  // holds every int exactly
  if (!value || value->get(number) != simdjson::SUCCESS) return std::nullopt;
  if (number != std::floor(number) || !(number >= kLengths.from && number <= kLengths.to)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

}  // namespace

GenerationDefaults read_generation_config(const JsonObject& from, ModelSpec& spec) {
  bool samples = false;
  from.keep([&] { samples = from.find_bool("do_sample").value_or(false); });
  GenerationDefaults defaults = {.sampling = read_settings(from, samples),
                                 .names_top_k = !samples || from.has("top_k")};

  // As in transformers, min_new_tokens overrides min_length.
  const auto read_floor = [&](std::string_view key, int& tokens) {
    from.keep([&] { tokens = static_cast<int>(from.find_integer(key, 0, kMaxCount).value_or(0)); });
  };
  read_floor("min_length", defaults.floor.with_prompt);
  read_floor("min_new_tokens", defaults.floor.tokens);
  if (from.has("min_new_tokens")) defaults.floor.with_prompt = 0;
  defaults.max_tokens =
      find_length(from, from.has("max_new_tokens") ? "max_new_tokens" : "max_length");

  from.keep([&] { spec.suppressed = known_tokens(from, "suppress_tokens", spec.vocab); });
  from.keep(
      [&] { spec.suppressed_first = known_tokens(from, "begin_suppress_tokens", spec.vocab); });
  from.keep([&] {
    const auto forced = from.one_or_more("forced_eos_token_id", 0, spec.vocab - 1);
    if (!forced.empty()) spec.forced_end = static_cast<TokenId>(std::ranges::min(forced));
  });
  from.keep([&] { read_bad_words(from, defaults, spec); });
  for (const auto& [key, neutral] : kUnsupportedKeys) {
    const auto value = from.find(key);
    if (!value || has_no_effect(*value, neutral)) continue;
    add_unsupported(defaults, fmt::format("{} {}", key, shown(*value)));
  }
  return defaults;
}

}  // namespace pagedinfer
