#include "intake/intake_item.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "core/random_key.h"
#include "core/refusal.h"
#include "engine/token_bans.h"
#include "intake/token_labels.h"
#include "ops/step_protocol.h"
#include "text/stop_strings.h"

namespace pagedinfer {
namespace {

Result<> check_draft(const RequestDraft& draft, bool can_tokenize) {
  if (draft.prompt || draft.has_messages || draft.row) {
    if (draft.prompt && draft.prompt->empty()) {
      return {"empty_prompt", "the prompt is an empty string"};
    }
    if (!can_tokenize) {
      return {"no_tokenizer",
              fmt::format("the model directory has no tokenizer: expected prompt_token_ids, found "
                          "{}",
                          draft.row      ? "a row"
                          : draft.prompt ? "prompt"
                                         : "messages")};
    }
  } else if (draft.prompt_token_ids.empty()) {
    return {"empty_prompt", "the prompt is an empty list"};
  }
  if (!can_tokenize && !draft.sampling.stop.empty()) {
    return {
        "no_tokenizer",
        "the model directory has no tokenizer: without text there are no stop strings, expected "
        "stop_token_ids"};
  }
  return {};
}

// Refuses keys that only a chat template can use.
Result<> check_without_messages(const Chat& chat) {
  const auto found = [](std::string_view key) {
    return Result<>("unsupported", fmt::format("{}: found it, but there are no messages", key));
  };
  if (!chat.tools.empty() && chat.tools != "[]") return found("tools");
  if (!chat.documents.empty() && chat.documents != "[]") return found("documents");
  if (!chat.template_arguments.empty()) return found("chat_template_kwargs");
  if (!chat.continued_field.empty()) return found("continue_final_message");
  return {};
}

Result<> check_prompt(const std::vector<TokenId>& prompt, const PromptLimits& limits) {
  if (prompt.empty()) return {"empty_prompt", "the prompt has no tokens, expected at least 1"};
  if (static_cast<int64_t>(prompt.size()) >= limits.max_model_len) {
    return {"prompt_too_long",
            fmt::format("the prompt has {} tokens: expected fewer than max-model-len = {}",
                        prompt.size(), limits.max_model_len)};
  }
  for (TokenId token : prompt) {
    if (token >= 0 && token < limits.vocab) continue;
    return {"unknown_token_id", refusal_of_token("the prompt", token, limits.vocab)};
  }
  return {};
}

Result<> check_token_ids(const SamplingParams& sampling, const PromptLimits& limits) {
  const auto unknown = [&](TokenId token) { return token < 0 || token >= limits.vocab; };
  for (const TokenBias& bias : sampling.logit_bias) {
    if (!unknown(bias.token)) continue;
    return {"unknown_token_id", refusal_of_token("logit_bias", bias.token, limits.vocab)};
  }
  for (TokenId token : sampling.allowed_token_ids) {
    if (!unknown(token)) continue;
    return {"unknown_token_id", refusal_of_token("allowed_token_ids", token, limits.vocab)};
  }
  for (TokenId token : sampling.stop_token_ids) {
    if (!unknown(token)) continue;
    return {"unknown_token_id", refusal_of_token("stop_token_ids", token, limits.vocab)};
  }
  return {};
}

// The prompt tokens that the line's truncate_prompt_tokens keeps; nullopt = all.
std::optional<int> longest_prompt(const RequestDraft& draft, const PromptLimits& limits) {
  const std::optional<int> max_prompt = draft.truncate_prompt_tokens;
  return max_prompt == -1 ? limits.max_model_len - 1 : max_prompt;
}

// Erases tokens after the first `begin` until at most `max_prompt` are left.
void keep_last(std::vector<TokenId>& tokens, int64_t begin, int64_t max_prompt) {
  const int64_t surplus = std::ssize(tokens) - max_prompt;
  if (surplus <= 0) return;
  tokens.erase(tokens.begin() + begin, tokens.begin() + begin + surplus);
}

// Truncates `all`, the tokens of a text that encode() encodes, but keeps the tokens that the
// tokenizer adds around the text, as the reference does.
template <class Encode>
void truncate(std::vector<TokenId>& all, const Encode& encode, AddBos add_bos, int max_prompt) {
  if (std::ssize(all) > max_prompt && add_bos == AddBos::kYes) {
    const std::vector<TokenId> inner = encode(AddBos::kNo);
    const int64_t around = std::ssize(all) - std::ssize(inner);
    if (around < max_prompt) {
      keep_last(all, std::ranges::search(all, inner).begin() - all.begin(), max_prompt);
    }
  }
  keep_last(all, 0, max_prompt);
}

// Converts a minimum length that includes the prompt to a minimum length of the completion alone.
LengthFloor without_prompt(const LengthFloor& floor, int64_t num_prompt) {
  const int64_t min_new = std::max<int64_t>(floor.tokens, floor.with_prompt - num_prompt);
  return {.tokens = static_cast<int>(min_new)};
}

// Refuses a request for which no first token is allowed. Later tokens have no additional bans. A
// request with a form passes unless it lists the allowed tokens, because its answer may be complete
// without tokens.
Result<> check_choice(int64_t num_prompt, const SamplingParams& sampling,
                      const PromptLimits& limits) {
  const std::span<const TokenId> allowed = sampling.allowed_token_ids;
  if (limits.spec == nullptr || sampling.max_tokens == 0) return {};
  if (allowed.empty() && !sampling.form.is_free()) return {};
  const int64_t max_new = std::min<int64_t>(sampling.max_tokens, limits.max_model_len - num_prompt);
  const bool ends_by_force = limits.spec->forced_end && !sampling.ignore_eos && max_new == 1;
  std::vector<TokenId> banned = banned_tokens(*limits.spec, sampling, 0);
  if (ends_by_force || (allowed.empty() && std::ssize(banned) < limits.vocab)) return {};
  std::ranges::sort(banned);
  const auto is_banned = [&](TokenId token) { return std::ranges::binary_search(banned, token); };
  const bool may_begin = allowed.empty()
                             ? !std::ranges::all_of(std::views::iota(0, limits.vocab), is_banned)
                             : !std::ranges::all_of(allowed, is_banned);
  if (may_begin) return {};
  return {"invalid_value",
          fmt::format("{}: found no token that a completion can begin with, expected one that "
                      "neither generation_config.json bans (suppress_tokens, "
                      "begin_suppress_tokens, bad_words_ids) nor ends it before its least length "
                      "(min_tokens)",
                      allowed.empty() ? "stop_token_ids" : "allowed_token_ids")};
}

Result<> check_form(const AnswerForm& form, const PromptLimits& limits) {
  if (form.is_free() || limits.no_forms.empty()) return {};
  return {"unsupported", fmt::format("the form of the answer: {}", limits.no_forms)};
}

// Refuses a beam search that needs more candidates than a row of logits gives.
Result<> check_beams(const SamplingParams& sampling, const PromptLimits& limits) {
  if (limits.spec == nullptr || sampling.beams.width == 1) return {};
  const int needed = num_beam_candidates(*limits.spec, sampling);
  if (needed <= kMaxCandidates) return {};
  const int num_special = needed - sampling.beams.width;
  return {"invalid_value",
          fmt::format("beam_width: found {}, and {} tokens that are banned or may end the "
                      "completion, expected at most {} together",
                      sampling.beams.width, num_special, kMaxCandidates)};
}

// Adds the request's prompt as text: `given`, unless there is none.
void add_text(const std::string* given, const Tokenizer* tokenizer, Request& request) {
  if (tokenizer == nullptr) return;
  if (given != nullptr) {
    request.prompt_text = *given;
    request.prompt_offsets = token_offsets(*tokenizer, request.prompt, *given);
    return;
  }
  TextStream text(*tokenizer, {}, {.show_special = !request.sampling.skip_special});
  for (const TokenId token : request.prompt) text.push(token);
  request.prompt_text = text.finish();
  request.prompt_offsets = text.offsets();
}

// Whether the tokens do not depend on random numbers.
bool is_certain(const SamplingParams& sampling) {
  return sampling.temperature < FLT_MIN || sampling.top_k == 1 || sampling.max_tokens == 0;
}

}  // namespace

int64_t memory_in_tokens(const IntakeItem& item) {
  const auto tokens_in = [](size_t bytes) {
    return static_cast<int64_t>((bytes + sizeof(TokenId) - 1) / sizeof(TokenId));
  };
  const auto of_list = [&](const auto& list) { return tokens_in(list.size() * sizeof(list[0])); };
  const auto of_prompt = [&](const Request& request) {
    return of_list(request.prompt) + of_list(request.prompt_text) + of_list(request.prompt_offsets);
  };
  const auto of_head = [&](const RecordHead& head) {
    return of_list(head.id_json) + of_list(head.kept);
  };
  const PreparedLine* const line = std::get_if<PreparedLine>(&item);
  if (line == nullptr) return of_head(std::get<Completion>(item).head);
  const Request& first = line->prompts.front();
  const SamplingParams& sampling = first.sampling;
  int64_t sum = of_head(line->head) + of_list(sampling.logit_bias) +
                of_list(sampling.allowed_token_ids) + of_list(sampling.stop) +
                of_list(sampling.stop_token_ids);
  for (const std::string& stop : sampling.stop) sum += of_list(stop);
  for (const std::string& text : sampling.form.texts) sum += of_list(text);
  for (const std::string& name : first.tools.names) sum += of_list(name);
  for (const Request& request : line->prompts) sum += of_prompt(request);
  return sum;
}

int64_t max_prompt_bytes(const Tokenizer& tokenizer, int max_model_len) {
  size_t longest = 1;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    longest = std::max(longest, tokenizer.token_bytes(token).size());
  }
  return 4 * static_cast<int64_t>(longest) * max_model_len;
}

namespace {

// Makes the request of one prompt: renders, tokenizes, checks and builds it.
struct PromptMaker {
  RequestDraft draft;
  size_t number;               // of the prompt in the line
  const Tokenizer* tokenizer;  // may be null
  const ChatSettings& chat;
  const PromptLimits& limits;

  bool converses = is_chat(draft, chat);
  std::vector<TextRange> ranges = {};  // of the text, that people wrote
  std::string_view template_text = {};
  std::vector<TokenId> prompt = {};
  bool is_cut = false;  // some tokens of the text are not in `prompt`

  // On an error `prompt` has the tokens that were made.
  Result<Request> make() {
    Result<> result = render();
    if (result) result = tokenize();
    if (result) result = check();
    if (result) return build();
    return std::move(result.error());
  }

  // Turns a conversation or a row into the text of the draft.
  Result<> render() {
    if (Result<> checked = check_draft(draft, tokenizer != nullptr); !checked) return checked;
    if (!converses && !draft.row) {
      if (draft.prompt) ranges = {{0, draft.prompt->size()}};
      return check_without_messages(draft.chat);
    }
    if (draft.echo) {
      return {"unsupported", "echo: found true; a conversation has no text to repeat"};
    }
    Result<RenderedChat> made = make_prompt_text(draft, chat);
    if (!made) return std::move(made.error());
    draft.prompt = std::move(made->text);
    ranges = std::move(made->written);
    template_text = made->template_text;
    return {};
  }

  // Makes the tokens of the prompt. A chat template writes the special tokens around a conversation
  // itself, so the tokenizer adds none there.
  Result<> tokenize() {
    const std::optional<int> max_prompt = longest_prompt(draft, limits);
    if (!draft.prompt) {
      prompt = std::move(draft.prompt_token_ids);
      if (max_prompt) keep_last(prompt, 0, *max_prompt);
      return {};
    }
    if (!max_prompt && std::ssize(*draft.prompt) > limits.max_prompt_bytes) {
      return {"prompt_too_long",
              fmt::format("the prompt has {} bytes, too many for fewer than max-model-len = {} "
                          "tokens",
                          draft.prompt->size(), limits.max_model_len)};
    }
    WrittenParts written = {.also = template_text};
    if (draft.escape_special.value_or(chat.escape_special)) written.ranges = ranges;
    const auto encode = [&](AddBos around) {
      return tokenizer->encode_apart(*draft.prompt, around, written);
    };
    const AddBos around =
        draft.add_special_tokens.value_or(!converses) ? AddBos::kYes : AddBos::kNo;
    try {
      std::vector<TokenId> tokens = encode(around);
      const size_t num_tokens = tokens.size();
      if (max_prompt) truncate(tokens, encode, around, *max_prompt);
      is_cut = tokens.size() < num_tokens;
      prompt = std::move(tokens);
    } catch (const EncodeError& error) {
      return {"tokenization_failed", error.what()};
    }
    return {};
  }

  // Completes the sampling parameters, and checks them and the tokens.
  Result<> check() {
    SamplingParams& sampling = draft.sampling;
    Result<> result = check_prompt(prompt, limits);
    if (result && number == 0) result = check_token_ids(sampling, limits);
    if (!result) return result;
    // The tokenizer may know more tokens than the model, which never draws them.
    for (const TokenId end : chat.ends_of_turn) {
      if (!converses || end >= limits.vocab || sampling.ignore_eos) continue;
      sampling.stop_token_ids.push_back(end);
    }
    sampling.floor = without_prompt(sampling.floor, std::ssize(prompt));
    result = check_beams(sampling, limits);
    if (result && number == 0) result = check_form(sampling.form, limits);
    if (result) result = check_choice(std::ssize(prompt), sampling, limits);
    return result;
  }

  Request build() {
    // Neither "line N" nor "... prompt N" is JSON, so it never equals an id.
    const std::string& id = draft.head.id_json;
    std::string origin = id.empty() ? fmt::format("line {}", draft.head.line) : id;
    if (number > 0) origin += fmt::format(" prompt {}", number);
    std::optional<TokenId> form_behind;
    const bool may_think = draft.chat.add_generation_prompt && template_thinks(template_text);
    if (converses && chat.thoughts && !draft.sampling.form.is_free() &&
        begins_with_thoughts(*chat.thoughts, *tokenizer, prompt, may_think)) {
      form_behind = chat.thoughts->end;
    }
    Request request = {.random_key = random_key(draft.sampling.seed, origin, prompt),
                       .num_samples = draft.sampling.best_of.value_or(draft.sampling.n),
                       .num_returned = draft.sampling.n,
                       .num_prompt_log_probs = draft.num_prompt_log_probs,
                       .echo = draft.echo,
                       .tools = converses ? std::move(draft.tools) : ToolUse{},
                       .form_behind = form_behind};
    if (is_certain(draft.sampling)) request.num_samples = 1;
    request.prompt = std::move(prompt);
    request.sampling = std::move(draft.sampling);
    if (request.echo || request.num_prompt_log_probs >= 0) {
      add_text(draft.prompt && !is_cut ? &*draft.prompt : nullptr, tokenizer, request);
    }
    return request;
  }
};

// The prompts of the draft, and none left in it.
std::vector<PromptDraft> take_prompts(RequestDraft& draft) {
  std::vector<PromptDraft> prompts = std::exchange(draft.more, {});
  prompts.insert(prompts.begin(),
                 PromptDraft{std::move(draft.prompt), std::move(draft.prompt_token_ids)});
  return prompts;
}

}  // namespace

IntakeItem prepare_line(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat,
                        const PromptLimits& limits) {
  RequestDraft& draft = line.request;
  if (line.failed()) {
    return Completion{.head = std::move(draft.head), .error = std::move(line.error)};
  }
  std::vector<PromptDraft> prompts = take_prompts(draft);
  PreparedLine prepared;
  for (size_t i = 0; i < prompts.size(); ++i) {
    draft.prompt = std::move(prompts[i].text);
    draft.prompt_token_ids = std::move(prompts[i].token_ids);
    const bool is_last = i + 1 == prompts.size();
    PromptMaker maker = {is_last ? std::move(draft) : draft, i, tokenizer, chat, limits};
    Result<Request> request = maker.make();
    if (!request) {
      std::string& message = request.error().message;
      if (prompts.size() > 1) message = fmt::format("prompt[{}]: {}", i, message);
      return Completion{.head = std::move(maker.draft.head),
                        .num_prompt_tokens = static_cast<int>(maker.prompt.size()),
                        .error = std::move(request.error())};
    }
    prepared.prompts.push_back(std::move(*request));
    if (is_last) prepared.head = std::move(maker.draft.head);
  }
  return prepared;
}

Result<> try_to_render(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat) {
  if (line.failed()) return std::move(line.error);
  const PromptLimits unread;
  return PromptMaker{std::move(line.request), 0, tokenizer, chat, unread}.render();
}

void check_line(ParsedLine& line, const LineArrival& arrival, const ChatSettings& chat, bool strict,
                RequestParser::UnknownKeys& keys) {
  if (!line.failed() && !arrival.fault.empty()) line.error = {"invalid_value", arrival.fault};
  if (line.failed()) return;
  const ChatFormat* const format = is_chat(line.request, chat) ? &chat.format : nullptr;
  for (const std::string_view name : unread_settings(format, line.request.chat)) {
    RequestParser::add(keys, {{std::string(name), 1}});
    if (!strict || line.failed()) continue;
    line.error = {"unknown_key", format == nullptr
                                     ? fmt::format("{}: found it, but there are no messages", name)
                                     : fmt::format("{}: the chat template does not read it", name)};
  }
}

}  // namespace pagedinfer
