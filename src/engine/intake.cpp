#include "engine/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/random_key.h"

namespace pagedinfer {
namespace {

int64_t tokens_in(const IntakeItem& item) {
  const Request* request = std::get_if<Request>(&item);
  return request == nullptr ? 0 : static_cast<int64_t>(request->prompt.size());
}

RequestError fault_of(const RequestDraft& draft, bool can_tokenize) {
  if (draft.prompt || draft.has_messages) {
    if (draft.prompt && draft.prompt->empty())
      return {"empty_prompt", "the prompt is an empty string"};
    if (!can_tokenize) {
      return {"no_tokenizer",
              fmt::format("the model directory has no tokenizer: expected prompt_token_ids, found "
                          "{}",
                          draft.prompt ? "prompt" : "messages")};
    }
  } else if (draft.prompt_token_ids.empty()) {
    return {"empty_prompt", "prompt_token_ids is an empty list"};
  }
  if (!can_tokenize && !draft.sampling.stop.empty()) {
    return {
        "no_tokenizer",
        "the model directory has no tokenizer: without text there are no stop strings, expected "
        "stop_token_ids"};
  }
  return {};
}

RequestError fault_of(const std::vector<TokenId>& prompt, const IntakeLimits& limits) {
  if (static_cast<int64_t>(prompt.size()) >= limits.max_model_len) {
    return {"prompt_too_long",
            fmt::format("the prompt has {} tokens: expected fewer than max-model-len = {}",
                        prompt.size(), limits.max_model_len)};
  }
  for (TokenId token : prompt) {
    if (token >= 0 && token < limits.vocab) continue;
    return {"unknown_token_id",
            fmt::format("prompt token id {}: expected 0 to {}", token, limits.vocab - 1)};
  }
  return {};
}

// How long a text can be that still has fewer than max_model_len tokens: every one as long as the
// longest there is, and four times as much where a tokenizer shortens text before it looks.
int64_t max_prompt_bytes(const Tokenizer& tokenizer, const IntakeLimits& limits) {
  size_t longest = 1;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    longest = std::max(longest, tokenizer.token_bytes(token).size());
  }
  return 4 * static_cast<int64_t>(longest) * limits.max_model_len;
}

// Ids that only sampling names.
RequestError fault_of(const SamplingParams& sampling, const IntakeLimits& limits) {
  const auto unknown = [&](TokenId token) { return token < 0 || token >= limits.vocab; };
  for (const TokenBias& bias : sampling.logit_bias) {
    if (!unknown(bias.token)) continue;
    return {"unknown_token_id", fmt::format("logit_bias of token id {}: expected 0 to {}",
                                            bias.token, limits.vocab - 1)};
  }
  for (TokenId token : sampling.stop_token_ids) {
    if (!unknown(token)) continue;
    return {"unknown_token_id",
            fmt::format("stop_token_ids has {}: expected 0 to {}", token, limits.vocab - 1)};
  }
  return {};
}

}  // namespace

IntakeItem make_request(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat,
                        const IntakeLimits& limits) {
  RequestDraft& draft = line.request;
  const auto failed = [&](RequestError error, size_t num_prompt) {
    return Completion{.head = std::move(draft.head),
                      .num_prompt_tokens = static_cast<int>(num_prompt),
                      .reason = FinishReason::kError,
                      .error = std::move(error)};
  };
  if (line.failed()) return failed(std::move(line.error), 0);
  if (RequestError fault = fault_of(draft, tokenizer != nullptr); !fault.code.empty()) {
    return failed(std::move(fault), 0);
  }
  const bool converses = is_chat(draft, chat);
  AddBos add_bos = AddBos::kYes;
  if (converses) {
    ChatPrompt made = make_chat_prompt(draft, chat);
    if (!made.error.code.empty()) return failed(std::move(made.error), 0);
    draft.prompt = std::move(made.text);
    add_bos = made.add_bos;
  } else if (draft.chat.enable_thinking.value_or(false)) {
    return failed({"unsupported",
                   "chat_template_kwargs.enable_thinking: found true, but there are no messages"},
                  0);
  }
  if (draft.prompt && static_cast<int64_t>(draft.prompt->size()) > limits.max_prompt_bytes) {
    return failed({"prompt_too_long",
                   fmt::format("the prompt has {} bytes, too many for fewer than max-model-len = "
                               "{} tokens",
                               draft.prompt->size(), limits.max_model_len)},
                  0);
  }
  std::vector<TokenId> prompt = std::move(draft.prompt_token_ids);
  try {
    if (draft.prompt) prompt = tokenizer->encode(*draft.prompt, add_bos);
  } catch (const EncodeError& error) {
    return failed({"tokenization_failed", error.what()}, 0);
  }
  for (RequestError fault : {fault_of(prompt, limits), fault_of(draft.sampling, limits)}) {
    if (!fault.code.empty()) return failed(std::move(fault), prompt.size());
  }
  if (converses && chat.end_of_turn && !draft.sampling.ignore_eos) {
    draft.sampling.stop_token_ids.push_back(*chat.end_of_turn);
  }
  const std::string& id = draft.head.id_json;
  const uint64_t key =
      random_key(draft.sampling.seed, id.empty() ? std::to_string(draft.head.line) : id, prompt);
  return Request{.head = std::move(draft.head),
                 .prompt = std::move(prompt),
                 .sampling = std::move(draft.sampling),
                 .random_key = key};
}

Intake::Intake(InputLines& lines, RequestParser& parser, const Tokenizer* tokenizer,
               const ChatSettings& chat, const IntakeLimits& limits, std::function<double()> clock,
               std::function<bool(int64_t)> is_done)
    : lines_(lines),
      parser_(parser),
      tokenizer_(tokenizer),
      chat_(chat),
      limits_(limits),
      clock_(std::move(clock)),
      is_done_(std::move(is_done)) {
  if (tokenizer_ != nullptr) limits_.max_prompt_bytes = max_prompt_bytes(*tokenizer_, limits_);
  thread_ = std::thread([this] { read_all(); });
}

Intake::~Intake() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Intake::read_all() {
  RunMark mark;
  try {
    while (const std::optional<InputLine> line = lines_.next()) {
      mark.add(line->text);
      if (!line->taken || is_done_(line->index)) continue;
      const double begin = clock_();
      ParsedLine parsed = parser_.parse(line->text, line->index, line->number);
      parsed.request.head.turn = line->turn;
      IntakeItem item = make_request(std::move(parsed), tokenizer_, chat_, limits_);
      if (!push(std::move(item), mark, clock_() - begin)) break;
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  mark_ = mark;
  ended_ = true;
  changed_.notify_all();
}

bool Intake::push(IntakeItem item, const RunMark& mark, double seconds) {
  const int64_t num_tokens = tokens_in(item);
  std::unique_lock lock(mutex_);
  tokenize_seconds_ += seconds;
  mark_ = mark;
  changed_.wait(lock, [&] {
    const bool room = static_cast<int>(items_.size()) < limits_.max_items &&
                      num_tokens_ + num_tokens <= limits_.max_tokens;
    return stopped_ || items_.empty() || room;
  });
  if (stopped_) return false;
  items_.push_back(std::move(item));
  num_tokens_ += num_tokens;
  ++num_read_;
  changed_.notify_all();
  return true;
}

Intake::Pull Intake::pull(bool wait, IntakeItem& item) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return !items_.empty() || ended_; });
  if (items_.empty()) {
    return ended_ ? Pull::kEnded : Pull::kLater;
  }
  item = std::move(items_.front());
  items_.pop_front();
  num_tokens_ -= tokens_in(item);
  changed_.notify_all();
  return Pull::kItem;
}

void Intake::rethrow_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

bool Intake::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

RunMark Intake::mark() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

double Intake::tokenize_seconds() const {
  const std::lock_guard lock(mutex_);
  return tokenize_seconds_;
}

std::optional<int64_t> Intake::num_lines() const {
  const std::lock_guard lock(mutex_);
  return ended_ ? std::optional(num_read_) : std::nullopt;
}

}  // namespace pagedinfer
