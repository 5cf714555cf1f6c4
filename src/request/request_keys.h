#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "settings/table.h"

namespace pagedinfer {

// How the parser treats a key.
enum class KeyKind : uint8_t {
  kRequest,   // read
  kLine,      // read on the outer level of a line of any form
  kBatch,     // read on the outer level of a line of the OpenAI form
  kIgnored,   // part of the OpenAI form, ignored; in other lines an unknown key
  kNoEffect,  // ignored, as no value of it changes a completion
  // Refused unless the value is null, false or empty, or as the comment says:
  kUnsupported,
  kUnsupportedButOne,       // 1
  kUnsupportedButZero,      // 0
  kUnsupportedAboveZero,    // 0 or a negative number
  kUnsupportedButTrue,      // true, but not false
  kUnsupportedButNone,      // "none"
  kUnsupportedButLeft,      // "left"
  kUnsupportedButText,      // {"type": "text"} or ["text"]
  kUnsupportedEvenIfFalse,  // not false
  // Refused if it is an object of settings; with any other value an unknown key.
  kUnsupportedSettings,
};

struct KeyInfo {
  std::string_view name;
  KeyKind kind;
  std::string_view instead = {};  // the key, or flag, that does the same here
};

// Every key that is known and no setting's.
inline constexpr KeyInfo kOtherKeys[] = {
    {"add_bos_token", KeyKind::kUnsupportedButTrue, "add_special_tokens"},
    {"add_generation_prompt", KeyKind::kRequest},
    {"add_special_tokens", KeyKind::kRequest},
    {"allowed_token_ids", KeyKind::kRequest},
    {"arrival_s", KeyKind::kLine},
    {"bad_words", KeyKind::kUnsupported},
    {"bad_words_ids", KeyKind::kUnsupported},
    {"beam_width", KeyKind::kRequest},
    {"begin_suppress_tokens", KeyKind::kUnsupported},
    {"body", KeyKind::kBatch},
    {"cache_prompt", KeyKind::kNoEffect},
    {"cache_salt", KeyKind::kNoEffect},
    {"chat_template", KeyKind::kUnsupported, "--chat-template"},
    {"chat_template_kwargs", KeyKind::kRequest},
    {"continue_final_message", KeyKind::kRequest},
    {"custom_id", KeyKind::kBatch},
    {"detokenize", KeyKind::kUnsupportedButTrue, "--token-ids"},
    {"diversity_penalty", KeyKind::kUnsupportedButZero},
    {"do_sample", KeyKind::kUnsupportedEvenIfFalse, "temperature, where 0 is greedy"},
    {"documents", KeyKind::kRequest},
    {"dry_allowed_length", KeyKind::kNoEffect},
    {"dry_base", KeyKind::kNoEffect},
    {"dry_multiplier", KeyKind::kUnsupportedAboveZero},
    {"dry_penalty_last_n", KeyKind::kNoEffect},
    {"dry_sequence_breakers", KeyKind::kNoEffect},
    {"dynatemp_exponent", KeyKind::kNoEffect},
    {"dynatemp_range", KeyKind::kUnsupportedAboveZero},
    {"early_stopping", KeyKind::kRequest},
    {"ebnf", KeyKind::kUnsupported, "guided_grammar"},
    {"echo", KeyKind::kRequest},
    {"encoder_repetition_penalty", KeyKind::kUnsupportedButOne},
    {"eos_token_id", KeyKind::kUnsupported, "stop_token_ids"},
    {"epsilon_cutoff", KeyKind::kUnsupportedButZero},
    {"escape_special", KeyKind::kRequest},
    {"eta_cutoff", KeyKind::kUnsupportedButZero},
    {"exponential_decay_length_penalty", KeyKind::kUnsupported},
    {"extra_body", KeyKind::kUnsupportedSettings},
    {"forced_bos_token_id", KeyKind::kUnsupported},
    {"forced_eos_token_id", KeyKind::kUnsupported},
    {"function_call", KeyKind::kUnsupportedButNone},
    {"functions", KeyKind::kUnsupported},
    {"generation_config", KeyKind::kUnsupportedSettings},
    {"grammar", KeyKind::kUnsupported, "guided_grammar"},
    {"guidance_scale", KeyKind::kUnsupportedButOne},
    {"guided_choice", KeyKind::kRequest},
    {"guided_decoding_backend", KeyKind::kNoEffect},
    {"guided_grammar", KeyKind::kRequest},
    {"guided_json", KeyKind::kRequest},
    {"guided_regex", KeyKind::kRequest},
    {"guided_whitespace_pattern", KeyKind::kUnsupported, "--json-whitespace"},
    {"id", KeyKind::kRequest},
    {"include_reasoning", KeyKind::kNoEffect},
    {"json_schema", KeyKind::kUnsupported, "guided_json"},
    {"length_penalty", KeyKind::kRequest},
    {"logit_bias", KeyKind::kRequest},
    {"logits_processors", KeyKind::kUnsupported},
    {"logprobs", KeyKind::kRequest},
    {"lora_request", KeyKind::kUnsupported},
    {"max_completion_tokens", KeyKind::kRequest},
    {"max_length", KeyKind::kUnsupported, "max_tokens, without the prompt"},
    {"max_new_tokens", KeyKind::kUnsupported, "max_tokens"},
    {"max_output_tokens", KeyKind::kUnsupported, "max_tokens"},
    {"max_tokens_to_sample", KeyKind::kUnsupported, "max_tokens"},
    {"messages", KeyKind::kRequest},
    {"metadata", KeyKind::kIgnored},
    {"method", KeyKind::kBatch},
    {"min_keep", KeyKind::kUnsupportedAboveZero},
    {"min_length", KeyKind::kUnsupportedAboveZero, "min_tokens, without the prompt"},
    {"min_new_tokens", KeyKind::kUnsupportedAboveZero, "min_tokens"},
    {"mirostat", KeyKind::kUnsupportedButZero},
    {"mirostat_eta", KeyKind::kNoEffect},
    {"mirostat_mode", KeyKind::kUnsupportedButZero},
    {"mirostat_tau", KeyKind::kNoEffect},
    {"modalities", KeyKind::kUnsupportedButText},
    {"model", KeyKind::kIgnored},
    {"n_keep", KeyKind::kNoEffect},
    {"n_predict", KeyKind::kUnsupported, "max_tokens"},
    {"n_probs", KeyKind::kUnsupportedAboveZero, "logprobs"},
    {"no_repeat_ngram_size", KeyKind::kUnsupportedAboveZero},
    {"no_stop_trim", KeyKind::kUnsupported, "include_stop_str_in_output"},
    {"num_beam_groups", KeyKind::kUnsupportedButOne},
    {"num_beams", KeyKind::kUnsupportedButOne, "beam_width"},
    {"num_predict", KeyKind::kUnsupported, "max_tokens"},
    {"num_return_sequences", KeyKind::kUnsupportedButOne, "n"},
    {"options", KeyKind::kUnsupportedSettings},
    {"parallel_tool_calls", KeyKind::kRequest},
    {"parameters", KeyKind::kUnsupportedSettings},
    {"penalize_nl", KeyKind::kNoEffect},
    {"penalty_alpha", KeyKind::kUnsupportedButZero},
    {"prediction", KeyKind::kIgnored},
    {"prompt", KeyKind::kRequest},
    {"prompt_cache_key", KeyKind::kIgnored},
    {"prompt_embeds", KeyKind::kUnsupported},
    {"prompt_logprobs", KeyKind::kRequest},
    {"prompt_token_ids", KeyKind::kRequest},
    {"reasoning_effort", KeyKind::kRequest},
    {"regex", KeyKind::kUnsupported, "guided_regex"},
    {"repeat_last_n", KeyKind::kNoEffect},
    {"repeat_penalty", KeyKind::kUnsupportedButOne, "repetition_penalty"},
    {"response_format", KeyKind::kRequest},
    {"return_full_text", KeyKind::kUnsupported, "echo"},
    {"return_token_ids", KeyKind::kUnsupported, "--token-ids"},
    {"return_tokens_as_token_ids", KeyKind::kUnsupported, "--token-ids"},
    {"safety_identifier", KeyKind::kIgnored},
    {"samplers", KeyKind::kUnsupported},
    {"sampling_params", KeyKind::kUnsupportedSettings},
    {"sequence_bias", KeyKind::kUnsupported, "logit_bias"},
    {"service_tier", KeyKind::kIgnored},
    {"spaces_between_special_tokens", KeyKind::kUnsupportedButTrue},
    {"stop_regex", KeyKind::kUnsupported},
    {"stop_sequences", KeyKind::kUnsupported, "stop"},
    {"stop_strings", KeyKind::kUnsupported, "stop"},
    {"store", KeyKind::kIgnored},
    {"stream", KeyKind::kUnsupported},
    {"stream_options", KeyKind::kUnsupported},
    {"structured_outputs", KeyKind::kRequest},
    {"suffix", KeyKind::kUnsupported},
    {"suppress_tokens", KeyKind::kUnsupported},
    {"temperature_last", KeyKind::kUnsupported},
    {"tfs_z", KeyKind::kUnsupportedButOne},
    {"thinking_token_budget", KeyKind::kUnsupported},
    {"tool_choice", KeyKind::kRequest},
    {"tools", KeyKind::kRequest},
    {"top_a", KeyKind::kUnsupportedButZero},
    {"top_h", KeyKind::kUnsupported},
    {"top_logprobs", KeyKind::kRequest},
    {"top_n_sigma", KeyKind::kUnsupportedAboveZero},
    {"top_n_tokens", KeyKind::kUnsupportedAboveZero, "logprobs"},
    {"truncate_prompt_tokens", KeyKind::kRequest},
    {"truncation_side", KeyKind::kUnsupportedButLeft},
    {"typ_p", KeyKind::kUnsupportedButOne},
    {"typical_p", KeyKind::kUnsupportedButOne},
    {"url", KeyKind::kBatch},
    {"use_beam_search", KeyKind::kUnsupported, "beam_width"},
    {"user", KeyKind::kIgnored},
    {"verbosity", KeyKind::kRequest},
    {"vllm_xargs", KeyKind::kUnsupported},
    {"watermark", KeyKind::kUnsupported},
    {"web_search_options", KeyKind::kUnsupported},
    {"xtc_probability", KeyKind::kUnsupportedAboveZero},
    {"xtc_threshold", KeyKind::kNoEffect},
};

inline constexpr int kNumLineSettings = static_cast<int>(
    std::count_if(std::begin(kSettings), std::end(kSettings), std::mem_fn(&Setting::in_line)));
inline constexpr int kNumKeys = static_cast<int>(std::size(kOtherKeys)) + kNumLineSettings;

// Every key that is known, by name. A key's place in it is its number.
inline constexpr std::array<KeyInfo, kNumKeys> kKeys = [] {
  std::array<KeyInfo, kNumKeys> keys;
  auto* to = std::copy(std::begin(kOtherKeys), std::end(kOtherKeys), keys.begin());
  for (const Setting& setting : kSettings) {
    if (setting.in_line) *to++ = {setting.key, KeyKind::kRequest};
  }
  std::sort(keys.begin(), keys.end(),
            [](const KeyInfo& a, const KeyInfo& b) { return a.name < b.name; });
  return keys;
}();

// The number of a key, or -1 if it is unknown.
constexpr int find_key(std::string_view name) {
  const auto* const found =
      std::lower_bound(std::begin(kKeys), std::end(kKeys), name,
                       [](const KeyInfo& key, std::string_view text) { return key.name < text; });
  if (found == std::end(kKeys) || found->name != name) return -1;
  return static_cast<int>(found - std::begin(kKeys));
}

// The settings that a line may say, in the order of the table, and the numbers of their keys.
struct LineSetting {
  const Setting* setting;
  int key;
};
inline constexpr std::array<LineSetting, kNumLineSettings> kLineSettings = [] {
  std::array<LineSetting, kNumLineSettings> all;
  auto* to = all.begin();
  for (const Setting& setting : kSettings) {
    if (setting.in_line) *to++ = {&setting, find_key(setting.key)};
  }
  return all;
}();

// The number of a known key. An unknown name does not compile.
consteval int key(std::string_view name) {
  const int number = find_key(name);
  return number >= 0 ? number : throw "no such key";
}

// Whether the words differ by one edit: a letter inserted, removed, replaced or swapped with the
// next.
constexpr bool is_one_edit_away(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1 || a == b) return false;
  size_t same = 0;
  while (same < a.size() && a[same] == b[same]) ++same;
  const std::string_view a_rest = a.substr(same), b_rest = b.substr(same);
  if (a.size() < b.size()) return a_rest == b_rest.substr(1);
  if (a_rest.substr(1) == b_rest.substr(1)) return true;
  return a_rest.size() > 1 && a_rest[0] == b_rest[1] && a_rest[1] == b_rest[0] &&
         a_rest.substr(2) == b_rest.substr(2);
}

// Whether two names differ only in case and in the _ and - between their words.
constexpr bool is_other_spelling(std::string_view a, std::string_view b) {
  const auto skip = [](std::string_view& text) {
    while (!text.empty() && (text[0] == '_' || text[0] == '-')) text.remove_prefix(1);
  };
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  if (a == b) return false;
  for (;; a.remove_prefix(1), b.remove_prefix(1)) {
    skip(a);
    skip(b);
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (lower(a[0]) != lower(b[0])) return false;
  }
}

// Whether the unknown `name` may be a misspelling of `known`. False for names of fewer than four
// letters, which are near too many others.
constexpr bool is_near_key(std::string_view name, std::string_view known) {
  return name.size() >= 4 && known.size() >= 4 &&
         (is_other_spelling(name, known) || is_one_edit_away(name, known));
}

// The known key that `name` may be a misspelling of; "" if there is none.
constexpr std::string_view find_similar_key(std::string_view name) {
  std::string_view found;
  for (const KeyInfo& known : kKeys) {
    if (known.kind != KeyKind::kRequest && known.kind != KeyKind::kLine) continue;
    if (!is_near_key(name, known.name)) continue;
    if (is_other_spelling(name, known.name)) return known.name;
    if (found.empty()) found = known.name;
  }
  return found;
}

}  // namespace pagedinfer
