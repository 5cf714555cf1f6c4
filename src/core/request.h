#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/answer_form.h"
#include "core/result.h"
#include "core/shared_list.h"
#include "core/tool_use.h"

namespace pagedinfer {

using TokenId = int32_t;
constexpr TokenId kNoToken = -1;  // the result of a draw if no logit is finite

// A token that could have been drawn. Its log probability comes from the raw logits.
struct TokenCandidate {
  TokenId token = kNoToken;
  float log_probability = 0;
  bool operator==(const TokenCandidate&) const = default;
};

// What a row of StepProtocol::sample() drew. Fields other than `token` are filled if the row asks
// for them. Log probabilities come from the model's logits, before bias, allowed and banned tokens,
// penalties and temperature.
struct DrawnToken {
  TokenId token = kNoToken;
  // Of the drawn token. If no token can be drawn and only one is allowed, it is the allowed
  // token's. nullopt: the token's logit is NaN or infinity, or no logit of the row is finite.
  std::optional<float> log_probability = {};
  // The most likely tokens, by descending logit, then id. Only tokens with a finite logit.
  std::vector<TokenCandidate> candidates = {};
  uint64_t logits_hash = 0;  // of the bits of the row's logits, if they are hashed
  bool operator==(const DrawnToken&) const = default;
};

struct TokenBias {
  TokenId token;
  float bias;  // added to the logit
};

// The minimum length that generation_config.json gives, as tokens of the completion or of prompt
// and completion together. Before it no token ends the completion, but a stop string may.
struct LengthFloor {
  int tokens = 0;
  int with_prompt = 0;
};

constexpr int kMaxSamples = 64;    // of a prompt
constexpr int kMaxPrompts = 1024;  // of a line

// When a beam search ends that has found `width` completions. kOff: when no beam seems able to beat
// them. kOn: at once. kNever: when certainly no beam can beat them.
enum class EarlyStopping : uint8_t { kOff, kOn, kNever };

struct BeamSettings {
  int width = 1;                // beams, at most kMaxSamples; 1: no search
  double length_penalty = 1.0;  // above 0 favours long completions
  EarlyStopping early_stopping = EarlyStopping::kOff;
};

// How a request's tokens are drawn and where it ends. The defaults are greedy. The requests of a
// line share its lists, which may be long.
struct SamplingParams {
  float temperature = 0.0f;         // 0 = greedy
  int top_k = 0;                    // 0 = off
  float top_p = 1.0f;               // 1 = off
  float min_p = 0.0f;               // 0 = off
  float repetition_penalty = 1.0f;  // of prompt and completion tokens; 1 = off
  float presence_penalty = 0.0f;    // of completion tokens; 0 = off
  float frequency_penalty = 0.0f;   // of completion tokens, times their count; 0 = off
  uint64_t seed = 0;
  SharedList<TokenBias> logit_bias = {};
  SharedList<TokenId> allowed_token_ids = {};  // no other can be drawn; empty: all
  AnswerForm form = {};

  int max_tokens = 256;
  int min_tokens = 0;       // before it neither a token nor a stop string ends the completion
  LengthFloor floor = {};   // applies if min_tokens is not given
  bool ignore_eos = false;  // the model's end-of-sequence tokens are ordinary ones
  SharedList<std::string> stop = {};
  SharedList<TokenId> stop_token_ids = {};
  bool keep_stop = false;    // the stop string or token is part of the text
  bool skip_special = true;  // the text leaves out special tokens

  // How many candidates are reported for each token of the completion, beside its own log
  // probability; -1: no log probabilities are reported at all.
  int num_log_probs = -1;
  int n = 1;                        // completions of the prompt
  std::optional<int> best_of = {};  // completions to draw, of which n are returned; n if not given
  BeamSettings beams = {};
};

// The format of an input line. The output record has the same format.
enum class RecordForm : uint8_t { kPlain, kOpenAiCompletion, kOpenAiChat };

// Where a record came from. It is carried unchanged from the input line to the output record.
struct RecordHead {
  int64_t index = 0;  // of the record, from 0; blank lines do not count
  int64_t turn = 0;   // of the record among those that this run writes, from 0
  int64_t line = 0;   // of the input file, from 1
  // When the line arrived, in seconds on the run's clock: when it was read, or when its scheduled
  // arrival was due. `arrival` is the scheduled time as the file gives it.
  double arrived = 0;
  std::optional<double> arrival = {};
  std::string id_json = {};  // the line's id as JSON text, or "" if it has none
  std::string kept = {};     // the keys that the record repeats, a JSON object; "" = none are kept
  RecordForm form = RecordForm::kPlain;
};

// A prompt of the input file, tokenized and with every default filled in.
struct Request {
  std::vector<TokenId> prompt = {};
  SamplingParams sampling = {};
  uint64_t random_key = 0;  // of its draws; see core/random_key.h
  int num_samples = 1;      // completions that are drawn
  int num_returned = 1;     // the best of them; above num_samples, the only sample is repeated
  // As SamplingParams::num_log_probs, but for the tokens of the prompt. The first token has no log
  // probability.
  int num_prompt_log_probs = -1;
  bool echo = false;  // the text begins with the prompt's
  ToolUse tools = {};
  // If set, the form of the answer begins after this token. Tokens before it are unconstrained, but
  // the answer may not end there.
  std::optional<TokenId> form_behind = {};
  // The text of the prompt, and the number of its characters before each token. Both are empty
  // unless the record shows the prompt or its tokens and their text is known.
  std::string prompt_text = {};
  std::vector<int> prompt_offsets = {};

  // SampleRow::num_log_probs of its draws. Choosing the best samples needs log probabilities too.
  int num_candidates() const {
    return std::max(sampling.num_log_probs, num_returned < num_samples ? 0 : -1);
  }
  // The same for the tokens of the prompt; -1: they are not scored.
  int num_prompt_candidates() const {
    return std::max(num_prompt_log_probs, echo ? sampling.num_log_probs : -1);
  }
};

// A line of the input file that can be computed: a request for each of its prompts. The requests
// differ in their prompts and in what follows from these.
struct PreparedLine {
  RecordHead head = {};
  std::vector<Request> prompts = {};  // at least one
};

enum class FinishReason : uint8_t { kStop, kLength, kError };

// Times of one request in seconds on the run's clock. A time is 0 if the request did not get that
// far.
struct RequestTiming {
  double admitted = 0, first_token = 0, finished = 0;
};

// A token of a record, with its log probability.
struct TokenLogProbs {
  TokenId token = kNoToken;
  std::optional<float> log_probability = {};  // none: the first token of a prompt
  std::vector<TokenCandidate> candidates = {};
  int text_offset = 0;  // characters of the text before it
};

// One completion of a prompt.
struct CompletionChoice {
  std::vector<TokenId> tokens = {};
  std::string text = {};
  // The function calls in the text, and the text before them.
  std::vector<ToolCall> tool_calls = {};
  std::string content = {};
  FinishReason reason = FinishReason::kLength;
  std::optional<double> score = {};  // the beam search's score, by which completions are ranked
  // One entry for each token that the text shows, if the line asks for log probabilities.
  std::optional<std::vector<TokenLogProbs>> log_probs = {};
};

// How the tokens of a line were drawn, so that two runs can be compared. Every list is empty if
// draws are not kept.
struct DrawTrace {
  std::vector<std::vector<TokenId>> prompts = {};
  // One list for each prompt; it is empty if the prompt was not scored. Otherwise entry i is
  // DrawnToken::logits_hash of the row that scored token i, and entry 0 is 0.
  std::vector<std::vector<uint64_t>> prompt_hashes = {};
  std::vector<std::vector<DrawnToken>> draws = {};  // one list for each choice
};

// The answer to one line: its completions, or the reason why there are none.
struct Completion {
  RecordHead head = {};
  int num_prompt_tokens = 0;
  int num_cached_tokens = 0;                   // prompt tokens found in the cache; varies by run
  int64_t num_completion_tokens = 0;           // of all samples; a repeated one counts each time
  std::vector<CompletionChoice> choices = {};  // as in the record; none if the line failed
  // One list for each prompt, if the line asks for them.
  std::vector<std::vector<TokenLogProbs>> prompt_log_probs = {};
  DrawTrace trace = {};
  RequestError error = {};  // set if it failed
  RequestTiming timing = {};

  bool failed() const { return !error.code.empty(); }
};

}  // namespace pagedinfer
