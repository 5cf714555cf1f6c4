#include "request/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/json.h"
#include "core/shortened.h"
#include "settings/json_value.h"
#include "settings/rules.h"
#include "settings/values.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// Whether a value means the same as an absent key.
bool asks_for_nothing(dom::element value, KeyKind kind) {
  double number = 0;
  std::string_view text;
  switch (value.type()) {
    case dom::element_type::NULL_VALUE: return true;
    case dom::element_type::BOOL:
      return bool(value) == (kind == KeyKind::kUnsupportedButTrue) &&
             kind != KeyKind::kUnsupportedEvenIfFalse;
    case dom::element_type::ARRAY:
      return dom::array(value).size() == 0 ||
             (kind == KeyKind::kUnsupportedButText && dom::array(value).size() == 1 &&
              dom::array(value).at(0).get(text) == simdjson::SUCCESS && text == "text");
    case dom::element_type::OBJECT:
      return dom::object(value).size() == 0 ||
             (kind == KeyKind::kUnsupportedButText && dom::object(value).size() == 1 &&
              value["type"].get(text) == simdjson::SUCCESS && text == "text");
    case dom::element_type::STRING:
      text = value;
      return text.empty() || (kind == KeyKind::kUnsupportedButNone && text == "none") ||
             (kind == KeyKind::kUnsupportedButLeft && text == "left");
    default: break;
  }
  if (value.get(number) != simdjson::SUCCESS) return false;
  return (kind == KeyKind::kUnsupportedButOne && number == 1) ||
         (kind == KeyKind::kUnsupportedButZero && number == 0) ||
         (kind == KeyKind::kUnsupportedAboveZero && number <= 0);
}

// Whether the value cannot be valid for an unsupported key in any program: a string, list or object
// where a number is expected. It is reported as invalid instead of unsupported.
bool is_wrong_type(dom::element value, KeyKind kind) {
  const bool is_number = kind == KeyKind::kUnsupportedButOne ||
                         kind == KeyKind::kUnsupportedButZero ||
                         kind == KeyKind::kUnsupportedAboveZero;
  return is_number && (value.is_string() || value.is_array() || value.is_object());
}

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

bool is_role(dom::element value) {
  std::string_view role;
  return value.get(role) == simdjson::SUCCESS &&
         std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

bool is_empty_list(dom::element value) { return value.is_array() && dom::array(value).size() == 0; }

std::string found_but(const std::string& path, dom::element value, std::string_view expected) {
  return refusal(path, describe(value), expected);
}

std::string not_supported(const std::string& path, dom::element value) {
  return fmt::format("{}: found {}; this version does not support it", path, describe(value));
}

}  // namespace

std::string_view shorten(std::string_view text) {
  constexpr size_t kMaxBytes = 60;
  return first_bytes(text, kMaxBytes);
}

std::string quote(std::string_view text) {
  std::string result;
  append_json_string(result, shorten(text));
  if (shorten(text).size() < text.size()) result += "...";
  return result;
}

std::string describe(dom::element value) {
  switch (value.type()) {
    case dom::element_type::STRING: return quote(value);
    case dom::element_type::ARRAY:
      return dom::array(value).size() == 0 ? "an empty list" : "a list";
    case dom::element_type::OBJECT:
      return dom::object(value).size() == 0 ? "an empty object" : "an object";
    default: return simdjson::minify(value);
  }
}

int RequestFields::find(std::string_view name) const {
  if (name == prompt_name_) return key("prompt");
  const int known = find_key(name);
  return known == key("prompt") ? -1 : known;
}

std::string_view RequestFields::name_of(int key) const {
  return key == pagedinfer::key("prompt") ? prompt_name_ : kKeys[static_cast<size_t>(key)].name;
}

bool RequestFields::has(int key) const {
  const auto& value = values_[static_cast<size_t>(key)];
  return value && !value->is_null();
}

bool RequestFields::says(int key, std::string_view text) const {
  std::string_view value;
  return has(key) && at(key).get(value) == simdjson::SUCCESS && value == text;
}

void RequestFields::refuse(const RequestError& error) {
  if (!failed()) error_ = error;
}

void RequestFields::refuse(const char* code, std::string message) {
  if (!failed()) error_ = {code, std::move(message)};
}

void RequestFields::refuse(int key, std::string_view expected) {
  const std::string found = has(key) ? describe(at(key)) : "nothing";
  refuse("invalid_value", refusal(fmt::format("{}{}", where_, name_of(key)), found, expected));
}

void RequestFields::refuse_part(int key, dom::element value, dom::element wrong,
                                std::string_view expected) {
  const bool is_item = value.is_array() && !wrong.is_array();
  refuse("invalid_value",
         refusal(fmt::format("{}{}", where_, name_of(key)),
                 fmt::format("{}{}", describe(wrong), is_item ? " in the list" : ""), expected));
}

void RequestFields::check_supported() {
  for (int key = 0; key < kNumKeys; ++key) {
    const auto [name, kind, instead] = kKeys[static_cast<size_t>(key)];
    if (kind < KeyKind::kUnsupported || !has(key) || asks_for_nothing(at(key), kind)) continue;
    if (is_wrong_type(at(key), kind)) {
      refuse("invalid_value",
             refusal(fmt::format("{}{}", where_, name), describe(at(key)), "a number"));
    }
    if (kind == KeyKind::kUnsupportedSettings) {
      refuse("unsupported",
             fmt::format("{}{}: found {}; this version does not read it, put its keys into the {}",
                         where_, name, describe(at(key)), where_.empty() ? "line" : "body"));
    }
    refuse("unsupported",
           fmt::format("{}{}: found {}; this version does not support it{}{}", where_, name,
                       describe(at(key)), instead.empty() ? "" : ", use ", instead));
  }
}

std::string RequestFields::read_id(int key) {
  if (!has(key)) return "";
  if (at(key).is_string() || at(key).is_int64() || at(key).is_uint64()) {
    std::string json;
    if (at(key).is_string()) {
      append_json_string(json, at(key));
    } else {
      json = simdjson::minify(at(key));
    }
    return json;
  }
  refuse(key, "a string or an integer");
  return "";
}

void RequestFields::read_prompt(RequestDraft& draft, PromptForm form) {
  constexpr int kPrompt = key("prompt"), kTokenIds = key("prompt_token_ids");
  constexpr int kMessages = key("messages");
  if (has(kTokenIds)) read_token_ids(kTokenIds, at(kTokenIds), draft.prompt_token_ids);
  const bool words = has(kPrompt), ids = !draft.prompt_token_ids.empty();
  const bool messages =
      has(kMessages) && !(at(kMessages).is_array() && dom::array(at(kMessages)).size() == 0);
  const bool chat = form == PromptForm::kChat;
  if (words + ids + messages > 1) {
    refuse("ambiguous_prompt", fmt::format("{0}{1}, {0}prompt_token_ids and {0}messages: found "
                                           "more than one of them, expected one",
                                           where_, prompt_name_));
  } else if (chat && !has(kMessages)) {
    refuse("missing_prompt",
           fmt::format("{}messages: found nothing, expected a list of messages", where_));
  } else if (messages && form == PromptForm::kCompletion) {
    refuse("invalid_value", fmt::format("{}messages: found messages, expected them with the url "
                                        "\"/v1/chat/completions\"",
                                        where_));
  } else if (messages || chat) {
    draft.has_messages = true;
    read_chat(draft.chat);
  } else if (words) {
    read_words(draft, form == PromptForm::kCompletion);
  } else if (!has(kTokenIds)) {
    refuse("missing_prompt",
           fmt::format("{0}{1}: found neither it nor {0}prompt_token_ids{2}, "
                       "expected one of them",
                       where_, prompt_name_, form == PromptForm::kPlain ? " nor messages" : ""));
  }
  read_template_settings(draft.chat);
  if (asks(key("add_special_tokens"))) {
    read_flag(key("add_special_tokens"), draft.add_special_tokens.emplace());
  }
  read_truncation(draft.truncate_prompt_tokens);
  read_flag(key("echo"), draft.echo);
  if (asks(key("prompt_logprobs"))) read_count(key("prompt_logprobs"), draft.num_prompt_log_probs);
  may_draw_nothing_ = draft.echo || draft.num_prompt_log_probs >= 0;
}

void RequestFields::read_truncation(std::optional<int>& result) {
  constexpr int kTruncate = key("truncate_prompt_tokens");
  if (!asks(kTruncate)) return;
  int64_t value = 0;
  if (at(kTruncate).get(value) != simdjson::SUCCESS || value == 0 || value < -1 ||
      value > kMaxCount) {
    return refuse(kTruncate, fmt::format("an integer from 1 to {}, or -1", kMaxCount));
  }
  result = static_cast<int>(value);
}

void RequestFields::read_words(RequestDraft& draft, bool may_be_list) {
  constexpr int kPrompt = key("prompt");
  if (failed()) return;
  const dom::element value = at(kPrompt);
  dom::array list;
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    draft.prompt.emplace(text);
  } else if (!may_be_list) {
    refuse(kPrompt, "a string");
  } else if (value.get(list) != simdjson::SUCCESS) {
    refuse(kPrompt, "a string, a list of strings or a list of token ids");
  } else if (list.size() > 0 && (list.at(0).is_string() || list.at(0).is_array())) {
    read_prompts(list, draft);
  } else {
    read_token_ids(kPrompt, value, draft.prompt_token_ids);
  }
}

// Strings, or lists of token ids.
void RequestFields::read_prompts(dom::array list, RequestDraft& draft) {
  if (list.size() > size_t{kMaxPrompts}) {
    return refuse("invalid_value", fmt::format("{}prompt: found a list of {} prompts, expected at "
                                               "most {}",
                                               where_, list.size(), kMaxPrompts));
  }
  const bool in_words = list.at(0).is_string();
  std::vector<PromptDraft> prompts;
  for (const dom::element item : list) {
    PromptDraft& prompt = prompts.emplace_back();
    std::string_view text;
    if (!in_words) {
      read_token_ids(key("prompt"), item, prompt.token_ids);
    } else if (item.get(text) == simdjson::SUCCESS) {
      prompt.text.emplace(text);
    } else {
      const auto path = fmt::format("{}prompt[{}]", where_, prompts.size() - 1);
      refuse("invalid_value", found_but(path, item, "a string"));
    }
    if (failed()) return;
  }
  draft.prompt = std::move(prompts.front().text);
  draft.prompt_token_ids = std::move(prompts.front().token_ids);
  prompts.erase(prompts.begin());
  draft.more = std::move(prompts);
}

void RequestFields::read_sampling(SamplingParams& sampling, PromptForm form) {
  for (const auto& [setting, number] : kLineSettings) {
    if (asks(number)) read_setting(*setting, number, sampling);
  }
  if (asks(key("max_completion_tokens"))) read_max_completion_tokens(sampling);
  if (asks(key("min_tokens"))) sampling.floor = {};
  read_logit_bias(sampling.logit_bias);
  if (asks(key("allowed_token_ids"))) {
    constexpr int kAllowed = key("allowed_token_ids");
    read_token_ids(kAllowed, at(kAllowed), sampling.allowed_token_ids);
    if (sampling.allowed_token_ids.empty()) refuse(kAllowed, "a list that is not empty");
  }
  read_log_probs(sampling.num_log_probs, form);
  read_beams(sampling.beams);
  if (sampling.beams.width > 1) keep_to_beams(sampling);
  const auto name = [&](std::string_view key) { return fmt::format("{}{}", where_, key); };
  const std::string conflict = conflict_in(sampling, name);
  if (!conflict.empty()) refuse("invalid_value", conflict);
}

void RequestFields::read_setting(const Setting& setting, int key, SamplingParams& sampling) {
  dom::element wrong;
  int64_t number = -1;
  if (may_draw_nothing_ && setting.key == "max_tokens" &&
      at(key).get(number) == simdjson::SUCCESS && number == 0) {
    sampling.max_tokens = 0;
    return;
  }
  if (auto value = read_json(setting, at(key), wrong)) {
    return setting.field.set_sampling(sampling, normalized(setting, std::move(*value)));
  }
  refuse_part(key, at(key), wrong, expected_of(setting));
}

void RequestFields::read_max_completion_tokens(SamplingParams& sampling) {
  constexpr const Setting* kMaxTokens = find_setting("max_tokens");
  const int other = sampling.max_tokens;
  read_setting(*kMaxTokens, key("max_completion_tokens"), sampling);
  if (asks(key("max_tokens")) && sampling.max_tokens != other) {
    refuse("invalid_value", fmt::format("{}max_completion_tokens: found {}, expected the same as "
                                        "max_tokens, which is {}",
                                        where_, sampling.max_tokens, other));
  }
}

// A conversation says whether with logprobs, and how many with top_logprobs; other lines say both
// with logprobs. false asks for nothing everywhere.
void RequestFields::read_beams(BeamSettings& beams) {
  constexpr int kWidth = key("beam_width"), kPenalty = key("length_penalty");
  constexpr int kStopping = key("early_stopping");
  constexpr double kMaxPenalty = 5;  // so that its powers are normal float32
  int64_t width = 1;
  if (asks(kWidth) &&
      (at(kWidth).get(width) != simdjson::SUCCESS || width < 1 || width > kMaxSamples)) {
    refuse(kWidth, fmt::format("an integer from 1 to {}", kMaxSamples));
  }
  beams.width = static_cast<int>(width);
  double& penalty = beams.length_penalty;
  if (asks(kPenalty) &&
      (at(kPenalty).get(penalty) != simdjson::SUCCESS || std::abs(penalty) > kMaxPenalty)) {
    refuse(kPenalty, fmt::format("a number from {} to {}", -kMaxPenalty, kMaxPenalty));
  }
  bool on = false;
  if (says(kStopping, "never")) {
    beams.early_stopping = EarlyStopping::kNever;
  } else if (asks(kStopping) && at(kStopping).get(on) != simdjson::SUCCESS) {
    refuse(kStopping, "true, false or \"never\"");
  } else if (on) {
    beams.early_stopping = EarlyStopping::kOn;
  }
  if (width > 1) return;
  if (penalty != 1) refuse(kPenalty, "beam_width above 1 beside it");
  if (beams.early_stopping != EarlyStopping::kOff) {
    refuse(kStopping, "beam_width above 1 beside it");
  }
}

// Nothing is drawn in a beam search. What a line says of draws is refused. What flags and the model
// say is dropped if it is about draws alone, and else refused too.
void RequestFields::keep_to_beams(SamplingParams& sampling) {
  const SamplingParams neutral;
  const auto refuse_unless = [&](bool neutral_value, int key, std::string_view value) {
    if (neutral_value || failed()) return;
    refuse("invalid_value",
           fmt::format("{}{}: found {}, expected {} beside beam_width", where_, name_of(key),
                       has(key) ? describe(at(key)) : "another by default", value));
  };
  const auto drop = [&](auto SamplingParams::*field, int key, std::string_view value) {
    if (asks(key)) refuse_unless(sampling.*field == neutral.*field, key, value);
    sampling.*field = neutral.*field;
  };
  drop(&SamplingParams::temperature, key("temperature"), "0");
  drop(&SamplingParams::top_k, key("top_k"), "0");
  drop(&SamplingParams::top_p, key("top_p"), "1");
  drop(&SamplingParams::min_p, key("min_p"), "0");
  drop(&SamplingParams::best_of, key("best_of"), "none");
  const auto keep = [&](auto SamplingParams::*field, int key, std::string_view value) {
    refuse_unless(sampling.*field == neutral.*field, key, value);
  };
  keep(&SamplingParams::repetition_penalty, key("repetition_penalty"), "1");
  keep(&SamplingParams::presence_penalty, key("presence_penalty"), "0");
  keep(&SamplingParams::frequency_penalty, key("frequency_penalty"), "0");
  keep(&SamplingParams::stop, key("stop"), "no string");
  keep(&SamplingParams::num_log_probs, key("logprobs"), "none");
  keep(&SamplingParams::allowed_token_ids, key("allowed_token_ids"), "none");
  refuse_unless(sampling.logit_bias.empty(), key("logit_bias"), "none");
  if (asks(key("prompt_logprobs"))) refuse_unless(false, key("prompt_logprobs"), "none");
  refuse_unless(sampling.max_tokens > 0, key("max_tokens"), "at least 1");
  if (sampling.n > sampling.beams.width) {
    refuse("invalid_value", fmt::format("{}n: found {}, expected at most beam_width, which is {}",
                                        where_, sampling.n, sampling.beams.width));
  }
}

void RequestFields::read_log_probs(int& count, PromptForm form) {
  constexpr int kLogProbs = key("logprobs"), kTop = key("top_logprobs");
  const bool chat = form == PromptForm::kChat;
  bool on = false;
  if (!asks(kLogProbs)) {
  } else if (at(kLogProbs).get(on) == simdjson::SUCCESS && (chat || !on)) {
    count = on ? 0 : -1;
  } else if (chat) {
    refuse(kLogProbs, "true or false");
  } else {
    read_count(kLogProbs, count);
  }
  int top = 0;
  if (asks(kTop)) read_count(kTop, top);
  if (top == 0) return;
  if (!chat) refuse(kTop, "none of it: logprobs is the number here");
  if (!on) refuse(kTop, "logprobs true beside it");
  count = top;
}

// A number of candidates; false is none.
void RequestFields::read_count(int key, int& count) {
  bool on = true;
  if (at(key).get(on) == simdjson::SUCCESS && !on) return;
  int64_t value = -1;
  if (at(key).get(value) != simdjson::SUCCESS || !kLogProbRange.contains(value)) {
    return refuse(key, text_of(kLogProbRange));
  }
  count = static_cast<int>(value);
}

void RequestFields::read_flag(int key, bool& result) {
  if (asks(key) && at(key).get(result) != simdjson::SUCCESS) refuse(key, "true or false");
}

void RequestFields::read_token_ids(int key, dom::element value, std::vector<TokenId>& result) {
  dom::element wrong;
  if (auto tokens = pagedinfer::read_token_ids(value, wrong)) {
    result = std::move(*tokens);
  } else {
    refuse_part(key, value, wrong, expected_token_ids());
  }
}

void RequestFields::read_logit_bias(std::vector<TokenBias>& result) {
  constexpr int kBias = key("logit_bias");
  if (!asks(kBias)) return;
  dom::object biases;
  if (at(kBias).get(biases) != simdjson::SUCCESS) {
    return refuse(kBias, "an object of token ids and numbers");
  }
  result.clear();
  for (const auto [name, value] : biases) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    double bias = 0;
    if (error != std::errc() || end != name.data() + name.size() || token < 0) {
      return refuse("invalid_value", fmt::format("{}logit_bias: found the key {}, expected a token "
                                                 "id from 0 to {}",
                                                 where_, quote(name), kMaxCount));
    }
    if (value.get(bias) != simdjson::SUCCESS || std::abs(bias) > 100) {
      return refuse("invalid_value", fmt::format("{}logit_bias: found {} for token {}, expected a "
                                                 "number from -100 to 100",
                                                 where_, describe(value), token));
    }
    result.push_back({token, static_cast<float>(bias)});
  }
  // Keeps one bias for each token, the last one given, sorted by token.
  std::reverse(result.begin(), result.end());
  std::stable_sort(result.begin(), result.end(),
                   [](TokenBias a, TokenBias b) { return a.token < b.token; });
  result.erase(std::unique(result.begin(), result.end(),
                           [](TokenBias a, TokenBias b) { return a.token == b.token; }),
               result.end());
}

void RequestFields::read_chat(Chat& chat) {
  constexpr int kMessages = key("messages");
  dom::array list;
  if (failed()) return;
  if (at(kMessages).get(list) != simdjson::SUCCESS) return refuse(kMessages, "a list of messages");
  chat.messages.reserve(list.size());
  for (const dom::element value : list) {
    const auto path = fmt::format("{}messages[{}]", where_, chat.messages.size());
    read_message(value, path, chat.messages.emplace_back());
    if (failed()) return;
  }
}

void RequestFields::read_message(dom::element value, const std::string& path,
                                 ChatMessage& message) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return refuse("invalid_value", found_but(path, value, "an object with role and content"));
  }
  bool has_content = false;
  for (const auto [name, item] : object) {
    const auto read_text = [&, key = name, given = item](auto& text) {
      std::string_view found;
      if (given.get(found) != simdjson::SUCCESS) {
        refuse("invalid_value", found_but(fmt::format("{}.{}", path, key), given, "a string"));
      }
      text = found;
    };
    if (item.is_null()) continue;
    if (name == "role") {
      if (!is_role(item)) {
        const auto expected = "system, developer, user, assistant or tool";
        return refuse("invalid_value", found_but(path + ".role", item, expected));
      }
      read_text(message.role);
    } else if (name == "content") {
      has_content = true;
      read_content(item, path + ".content", message);
    } else if (name == "reasoning_content") {
      read_text(message.reasoning);
    } else if (name == "tool_call_id") {
      read_text(message.tool_call_id);
    } else if (name == "tool_calls" || name == "function_call") {
      if (is_empty_list(item)) continue;
      return refuse("unsupported", not_supported(fmt::format("{}.{}", path, name), item));
    } else if (name != "name") {  // which no template shows
      unknown_keys_.push_back(name);
    }
  }
  for (const auto& [is_there, name] :
       {std::pair(!message.role.empty(), "role"), std::pair(has_content, "content")}) {
    if (is_there) continue;
    refuse("invalid_value", fmt::format("{}.{}: found nothing, expected a string", path, name));
  }
}

void RequestFields::read_content(dom::element value, const std::string& path,
                                 ChatMessage& message) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    message.content = text;
    message.parts.clear();
    return;
  }
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS || list.size() == 0) {
    return refuse("invalid_value", found_but(path, value, "a string or a list of texts"));
  }
  message.content.clear();
  message.parts.clear();
  for (const dom::element part : list) {
    const std::string place = fmt::format("{}[{}]", path, message.parts.size());
    std::string_view type;
    if (part["type"].get(type) != simdjson::SUCCESS) {
      return refuse("invalid_value", found_but(place, part, R"({"type": "text", "text": ...})"));
    }
    if (type != "text") {
      return refuse("unsupported", fmt::format("{}.type: found {}; this version supports text only",
                                               place, quote(type)));
    }
    if (part["text"].get(text) != simdjson::SUCCESS) {
      return refuse("invalid_value", found_but(place, part, R"({"type": "text", "text": ...})"));
    }
    if (!message.parts.empty()) message.content += '\n';
    message.content += text;
    message.parts.emplace_back(text);
  }
}

void RequestFields::read_template_settings(Chat& chat) {
  constexpr int kArguments = key("chat_template_kwargs");
  read_flag(key("add_generation_prompt"), chat.add_generation_prompt);
  if (!asks(kArguments)) return;
  dom::object settings;
  if (at(kArguments).get(settings) != simdjson::SUCCESS) return refuse(kArguments, "an object");
  for (const auto [name, value] : settings) {
    const auto path = fmt::format("{}chat_template_kwargs.{}", where_, shorten(name));
    bool on = false;
    if (value.is_null()) continue;
    if (name != "enable_thinking") {
      refuse("unsupported", not_supported(path, value));
    } else if (value.get(on) != simdjson::SUCCESS) {
      refuse("invalid_value", found_but(path, value, "true or false"));
    } else {
      chat.enable_thinking = on;
    }
  }
}

}  // namespace pagedinfer
