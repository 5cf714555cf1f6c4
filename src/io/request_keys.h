#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace pagedinfer {

// What the parser does with a key of a line.
enum class KeyKind : uint8_t {
  kRequest,  // read
  kBatch,    // read on the outer level of a line of the OpenAI form
  kIgnored,  // part of the OpenAI form and without effect here
  // Asks for something that this version cannot do, unless the value is null, false or empty, or:
  kUnsupported,
  kUnsupportedButOne,   // 1
  kUnsupportedButZero,  // 0
  kUnsupportedButNone,  // "none"
  kUnsupportedButText,  // {"type": "text"}
};

struct KeyInfo {
  std::string_view name;
  KeyKind kind;
};

// Every key that is known, by name. A key's place in it is its number.
inline constexpr KeyInfo kKeys[] = {
    {"add_generation_prompt", KeyKind::kRequest},
    {"arrival_s", KeyKind::kUnsupportedButZero},
    {"bad_words", KeyKind::kUnsupported},
    {"beam_width", KeyKind::kUnsupportedButOne},
    {"best_of", KeyKind::kUnsupportedButOne},
    {"body", KeyKind::kBatch},
    {"chat_template", KeyKind::kUnsupported},
    {"chat_template_kwargs", KeyKind::kRequest},
    {"continue_final_message", KeyKind::kUnsupported},
    {"custom_id", KeyKind::kBatch},
    {"documents", KeyKind::kUnsupported},
    {"early_stopping", KeyKind::kUnsupported},
    {"echo", KeyKind::kUnsupported},
    {"frequency_penalty", KeyKind::kRequest},
    {"function_call", KeyKind::kUnsupportedButNone},
    {"functions", KeyKind::kUnsupported},
    {"guided_choice", KeyKind::kUnsupported},
    {"guided_grammar", KeyKind::kUnsupported},
    {"guided_json", KeyKind::kUnsupported},
    {"guided_regex", KeyKind::kUnsupported},
    {"id", KeyKind::kRequest},
    {"ignore_eos", KeyKind::kRequest},
    {"length_penalty", KeyKind::kUnsupportedButOne},
    {"logit_bias", KeyKind::kRequest},
    {"logprobs", KeyKind::kUnsupported},
    {"max_completion_tokens", KeyKind::kRequest},
    {"max_tokens", KeyKind::kRequest},
    {"messages", KeyKind::kRequest},
    {"method", KeyKind::kBatch},
    {"min_p", KeyKind::kRequest},
    {"min_tokens", KeyKind::kRequest},
    {"model", KeyKind::kIgnored},
    {"n", KeyKind::kUnsupportedButOne},
    {"parallel_tool_calls", KeyKind::kUnsupported},
    {"presence_penalty", KeyKind::kRequest},
    {"prompt", KeyKind::kRequest},
    {"prompt_embeds", KeyKind::kUnsupported},
    {"prompt_logprobs", KeyKind::kUnsupported},
    {"prompt_token_ids", KeyKind::kRequest},
    {"reasoning_effort", KeyKind::kUnsupportedButNone},
    {"repetition_penalty", KeyKind::kRequest},
    {"response_format", KeyKind::kUnsupportedButText},
    {"seed", KeyKind::kRequest},
    {"stop", KeyKind::kRequest},
    {"stop_token_ids", KeyKind::kRequest},
    {"stream", KeyKind::kUnsupported},
    {"stream_options", KeyKind::kUnsupported},
    {"structured_outputs", KeyKind::kUnsupported},
    {"suffix", KeyKind::kUnsupported},
    {"temperature", KeyKind::kRequest},
    {"tool_choice", KeyKind::kUnsupportedButNone},
    {"tools", KeyKind::kUnsupported},
    {"top_k", KeyKind::kRequest},
    {"top_logprobs", KeyKind::kUnsupportedButZero},
    {"top_p", KeyKind::kRequest},
    {"typical_p", KeyKind::kUnsupportedButOne},
    {"url", KeyKind::kBatch},
    {"use_beam_search", KeyKind::kUnsupported},
    {"user", KeyKind::kIgnored},
};
inline constexpr int kNumKeys = static_cast<int>(std::size(kKeys));
static_assert(std::is_sorted(std::begin(kKeys), std::end(kKeys),
                             [](const KeyInfo& a, const KeyInfo& b) { return a.name < b.name; }));

// The number of a key, or -1 if it is unknown.
constexpr int find_key(std::string_view name) {
  const auto* const found =
      std::lower_bound(std::begin(kKeys), std::end(kKeys), name,
                       [](const KeyInfo& key, std::string_view text) { return key.name < text; });
  if (found == std::end(kKeys) || found->name != name) return -1;
  return static_cast<int>(found - std::begin(kKeys));
}

// The number of a key of ours; one that is not in the table does not compile.
consteval int key(std::string_view name) {
  const int number = find_key(name);
  return number >= 0 ? number : throw "no such key";
}

}  // namespace pagedinfer
