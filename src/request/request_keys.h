#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "settings/foreign_names.h"
#include "settings/table.h"

namespace pagedinfer {

// How the parser treats a key.
enum class KeyKind : uint8_t {
  kRequest,         // read
  kLine,            // read on the outer level of a line of any form
  kBatch,           // read on the outer level of a line of the OpenAI form
  kIgnored,         // part of the OpenAI form, ignored; in other lines an unknown key
  kNoEffect,        // ignored, because no value changes a completion
  kUnsupported,     // refused unless its value asks for nothing
  kSettingsObject,  // refused if it is an object of settings; with any other value an unknown key
};

struct KeyInfo {
  std::string_view name;
  KeyKind kind;
  std::string_view instead = {};      // of an unsupported key: the key, or flag, that does the same
  Neutral neutral = Neutral::kEmpty;  // of an unsupported key: which values ask for nothing
};

// Every known key that is neither the key of a setting nor a foreign name.
inline constexpr KeyInfo kOtherKeys[] = {
    {"add_generation_prompt", KeyKind::kRequest},
    {"add_special_tokens", KeyKind::kRequest},
    {"allowed_token_ids", KeyKind::kRequest},
    {"arrival_s", KeyKind::kLine},
    {"bad_words", KeyKind::kUnsupported},
    {"beam_width", KeyKind::kRequest},
    {"body", KeyKind::kBatch},
    {"cache_prompt", KeyKind::kNoEffect},
    {"cache_salt", KeyKind::kNoEffect},
    {"chat_template_kwargs", KeyKind::kRequest},
    {"continue_final_message", KeyKind::kRequest},
    {"custom_id", KeyKind::kBatch},
    {"documents", KeyKind::kRequest},
    {"early_stopping", KeyKind::kRequest},
    {"echo", KeyKind::kRequest},
    {"escape_special", KeyKind::kRequest},
    {"extra_body", KeyKind::kSettingsObject},
    {"function_call", KeyKind::kUnsupported},
    {"functions", KeyKind::kUnsupported},
    {"generation_config", KeyKind::kSettingsObject},
    {"guided_choice", KeyKind::kRequest},
    {"guided_decoding_backend", KeyKind::kNoEffect},
    {"guided_grammar", KeyKind::kRequest},
    {"guided_json", KeyKind::kRequest},
    {"guided_regex", KeyKind::kRequest},
    {"id", KeyKind::kRequest},
    {"include_reasoning", KeyKind::kNoEffect},
    {"length_penalty", KeyKind::kRequest},
    {"logit_bias", KeyKind::kRequest},
    {"logits_processors", KeyKind::kUnsupported},
    {"logprobs", KeyKind::kRequest},
    {"lora_request", KeyKind::kUnsupported},
    {"max_completion_tokens", KeyKind::kRequest},
    {"messages", KeyKind::kRequest},
    {"metadata", KeyKind::kIgnored},
    {"method", KeyKind::kBatch},
    {"model", KeyKind::kIgnored},
    {"options", KeyKind::kSettingsObject},
    {"parallel_tool_calls", KeyKind::kRequest},
    {"parameters", KeyKind::kSettingsObject},
    {"prediction", KeyKind::kIgnored},
    {"prompt", KeyKind::kRequest},
    {"prompt_cache_key", KeyKind::kIgnored},
    {"prompt_embeds", KeyKind::kUnsupported},
    {"prompt_logprobs", KeyKind::kRequest},
    {"prompt_token_ids", KeyKind::kRequest},
    {"reasoning_effort", KeyKind::kRequest},
    {"response_format", KeyKind::kRequest},
    {"safety_identifier", KeyKind::kIgnored},
    {"sampling_params", KeyKind::kSettingsObject},
    {"service_tier", KeyKind::kIgnored},
    {"store", KeyKind::kIgnored},
    {"stream", KeyKind::kUnsupported},
    {"stream_options", KeyKind::kUnsupported},
    {"structured_outputs", KeyKind::kRequest},
    {"suffix", KeyKind::kUnsupported},
    {"suppress_tokens", KeyKind::kUnsupported},
    {"thinking_token_budget", KeyKind::kUnsupported},
    {"tool_choice", KeyKind::kRequest},
    {"tools", KeyKind::kRequest},
    {"top_logprobs", KeyKind::kRequest},
    {"truncate_prompt_tokens", KeyKind::kRequest},
    {"url", KeyKind::kBatch},
    {"user", KeyKind::kIgnored},
    {"verbosity", KeyKind::kRequest},
    {"web_search_options", KeyKind::kUnsupported},
};

inline constexpr int kNumLineSettings = static_cast<int>(
    std::count_if(std::begin(kSettings), std::end(kSettings), std::mem_fn(&Setting::in_line)));
inline constexpr int kNumForeignKeys =
    static_cast<int>(std::count_if(std::begin(kForeignNames), std::end(kForeignNames),
                                   [](const ForeignName& foreign) { return !foreign.flag_only; }));
inline constexpr int kNumKeys =
    static_cast<int>(std::size(kOtherKeys)) + kNumForeignKeys + kNumLineSettings;

// Every known key, sorted by name. The number of a key is its index.
inline constexpr std::array<KeyInfo, kNumKeys> kKeys = [] {
  std::array<KeyInfo, kNumKeys> keys;
  auto* to = std::copy(std::begin(kOtherKeys), std::end(kOtherKeys), keys.begin());
  for (const ForeignName& foreign : kForeignNames) {
    if (foreign.flag_only) continue;
    *to++ = {foreign.name, KeyKind::kUnsupported, foreign.ours, foreign.neutral};
  }
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

// The settings that a line may give, in the order of the table, and the numbers of their keys.
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

// Whether two names differ only in case and in the _ and - between words.
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
