#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/numbers.h"
#include "request/line_fields.h"
#include "settings/json_value.h"
#include "settings/rules.h"
#include "settings/values.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

void read_setting(RequestFields& fields, const Setting& setting, int key, bool may_draw_nothing,
                  SamplingParams& sampling) {
  dom::element wrong;
  int64_t number = -1;
  const bool draws_nothing =
      setting.key == "max_tokens" && fields.at(key).get(number) == simdjson::SUCCESS && number == 0;
  if (draws_nothing && may_draw_nothing) {
    sampling.max_tokens = 0;
    return;
  }
  if (auto value = read_json(setting, fields.at(key), wrong)) {
    return setting.field.set_sampling(sampling, normalized(setting, std::move(*value)));
  }
  const std::string_view beside = draws_nothing ? ", or 0 beside prompt_logprobs or echo" : "";
  fields.refuse_part(key, fields.at(key), wrong, fmt::format("{}{}", expected_of(setting), beside));
}

void read_max_completion_tokens(RequestFields& fields, bool may_draw_nothing,
                                SamplingParams& sampling) {
  constexpr const Setting* kMaxTokens = find_setting("max_tokens");
  const int other = sampling.max_tokens;
  read_setting(fields, *kMaxTokens, key("max_completion_tokens"), may_draw_nothing, sampling);
  if (fields.asks(key("max_tokens")) && sampling.max_tokens != other) {
    fields.refuse_found(fields.path_of(key("max_completion_tokens")),
                        std::to_string(sampling.max_tokens),
                        fmt::format("the same as max_tokens, which is {}", other));
  }
}

void read_logit_bias(RequestFields& fields, SharedList<TokenBias>& result) {
  constexpr int kBias = key("logit_bias");
  if (!fields.asks(kBias)) return;
  dom::object biases;
  if (!fields.get(kBias, biases, "an object of token ids and numbers")) return;
  const std::string path = fields.path_of(kBias);
  std::vector<TokenBias> all;
  for (const auto [name, value] : biases) {
    const auto token = read_number<TokenId>(name);
    double bias = 0;
    if (!token || *token < 0) {
      return fields.refuse_found(path, fmt::format("the key {}", quote(name)),
                                 fmt::format("a token id from 0 to {}", kMaxCount));
    }
    if (value.get(bias) != simdjson::SUCCESS || std::abs(bias) > 100) {
      return fields.refuse_found(path, fmt::format("{} for token {}", describe(value), *token),
                                 "a number from -100 to 100");
    }
    all.push_back({*token, static_cast<float>(bias)});
  }
  // Keeps one bias for each token, the last one given, sorted by token.
  std::reverse(all.begin(), all.end());
  std::stable_sort(all.begin(), all.end(),
                   [](TokenBias a, TokenBias b) { return a.token < b.token; });
  all.erase(std::unique(all.begin(), all.end(),
                        [](TokenBias a, TokenBias b) { return a.token == b.token; }),
            all.end());
  result = std::move(all);
}

// In a conversation, logprobs switches log probabilities on and top_logprobs is the number of
// candidates; in other lines logprobs is that number. false asks for none in every line.
void read_log_probs(RequestFields& fields, int& count, PromptForm form) {
  constexpr int kLogProbs = key("logprobs"), kTop = key("top_logprobs");
  const bool chat = form == PromptForm::kChat;
  bool on = false;
  if (!fields.asks(kLogProbs)) {
  } else if (fields.at(kLogProbs).get(on) == simdjson::SUCCESS && (chat || !on)) {
    count = on ? 0 : -1;
  } else if (chat) {
    fields.refuse(kLogProbs, "true or false");
  } else {
    fields.read_count(kLogProbs, count);
  }
  int top = 0;
  if (fields.asks(kTop)) fields.read_count(kTop, top);
  if (top == 0) return;
  if (!chat) fields.refuse(kTop, "none of it: logprobs is the number here");
  if (!on) fields.refuse(kTop, "logprobs true beside it");
  count = top;
}

void read_beams(RequestFields& fields, BeamSettings& beams) {
  constexpr int kWidth = key("beam_width"), kPenalty = key("length_penalty");
  constexpr int kStopping = key("early_stopping");
  constexpr double kMaxPenalty = 5;  // so that its powers are normal float32
  int64_t width = 1;
  if (fields.asks(kWidth) &&
      (fields.at(kWidth).get(width) != simdjson::SUCCESS || width < 1 || width > kMaxSamples)) {
    fields.refuse(kWidth, fmt::format("an integer from 1 to {}", kMaxSamples));
  }
  beams.width = static_cast<int>(width);
  double& penalty = beams.length_penalty;
  if (fields.asks(kPenalty) &&
      (fields.at(kPenalty).get(penalty) != simdjson::SUCCESS || std::abs(penalty) > kMaxPenalty)) {
    fields.refuse(kPenalty, fmt::format("a number from {} to {}", -kMaxPenalty, kMaxPenalty));
  }
  bool on = false;
  if (fields.says(kStopping, "never")) {
    beams.early_stopping = EarlyStopping::kNever;
  } else if (fields.asks(kStopping) && fields.at(kStopping).get(on) != simdjson::SUCCESS) {
    fields.refuse(kStopping, "true, false or \"never\"");
  } else if (on) {
    beams.early_stopping = EarlyStopping::kOn;
  }
  if (width > 1) return;
  if (penalty != 1) fields.refuse(kPenalty, "beam_width above 1 beside it");
  if (beams.early_stopping != EarlyStopping::kOff) {
    fields.refuse(kStopping, "beam_width above 1 beside it");
  }
}

// A beam search draws nothing at random. Settings of draws in its line are refused. Such settings
// of flags or the model are dropped if they concern draws alone, and refused otherwise.
void keep_to_beams(RequestFields& fields, SamplingParams& sampling) {
  const SamplingParams neutral;
  const auto refuse_unless = [&](bool neutral_value, int key, std::string_view value) {
    if (neutral_value || fields.failed()) return;
    fields.refuse_found(fields.path_of(key),
                        fields.has(key) ? describe(fields.at(key)) : "another by default",
                        fmt::format("{} beside beam_width", value));
  };
  const auto drop = [&](auto SamplingParams::*field, int key, std::string_view value) {
    if (fields.asks(key)) refuse_unless(sampling.*field == neutral.*field, key, value);
    sampling.*field = neutral.*field;
  };
  drop(&SamplingParams::temperature, key("temperature"), "0");
  drop(&SamplingParams::top_k, key("top_k"), "0");
  drop(&SamplingParams::top_p, key("top_p"), "1");
  drop(&SamplingParams::min_p, key("min_p"), "0");
  if (fields.asks(key("best_of"))) {
    refuse_unless(sampling.best_of.value_or(1) == 1, key("best_of"), "1 or none");
  }
  sampling.best_of.reset();
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
  if (fields.asks(key("prompt_logprobs"))) refuse_unless(false, key("prompt_logprobs"), "none");
  refuse_unless(sampling.max_tokens > 0, key("max_tokens"), "at least 1");
  if (sampling.n > sampling.beams.width) {
    fields.refuse_found(fields.path_of(key("n")), std::to_string(sampling.n),
                        fmt::format("at most beam_width, which is {}", sampling.beams.width));
  }
}

}  // namespace

void read_sampling(RequestFields& fields, RequestDraft& draft, PromptForm form) {
  SamplingParams& sampling = draft.sampling;
  const bool may_draw_nothing = draft.echo || draft.num_prompt_log_probs >= 0;
  for (const auto& [setting, number] : kLineSettings) {
    if (fields.asks(number)) read_setting(fields, *setting, number, may_draw_nothing, sampling);
  }
  if (fields.asks(key("max_completion_tokens"))) {
    read_max_completion_tokens(fields, may_draw_nothing, sampling);
  }
  if (fields.asks(key("min_tokens"))) sampling.floor = {};
  read_logit_bias(fields, sampling.logit_bias);
  if (fields.asks(key("allowed_token_ids"))) {
    constexpr int kAllowed = key("allowed_token_ids");
    std::vector<TokenId> allowed;
    fields.read_token_ids(kAllowed, fields.at(kAllowed), allowed);
    sampling.allowed_token_ids = std::move(allowed);
    if (sampling.allowed_token_ids.empty()) fields.refuse(kAllowed, "a list that is not empty");
  }
  const bool has_own_form = read_form(fields, sampling.form);
  read_tools(fields, draft, has_own_form && !sampling.form.is_free());
  read_log_probs(fields, sampling.num_log_probs, form);
  read_beams(fields, sampling.beams);
  if (sampling.beams.width > 1) keep_to_beams(fields, sampling);
  const auto name = [&](std::string_view key) { return fmt::format("{}{}", fields.where(), key); };
  if (const Result<> checked = check_together(sampling, name); !checked) {
    fields.refuse(checked.error());
  }
}

}  // namespace pagedinfer
