#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "commands/plan/request_sample.h"
#include "engine/pull.h"
#include "sched/scheduler.h"
#include "stats/histogram.h"

namespace pagedinfer {

// Collects what a run's input asks for, in bounded memory.
class InputSurvey {
 public:
  InputSurvey(int max_model_len, RequestSample sample)
      : max_model_len_(max_model_len), sample_(std::move(sample)) {}

  // Adds the next line's request or error. A request that does not fit `scheduler` is an error.
  void add(const IntakeItem& item, const Scheduler& scheduler);

  int64_t num_lines() const { return num_lines_; }
  const std::map<ErrorCode, int64_t>& failed_by_code() const { return failed_by_code_; }
  int64_t num_sequences() const { return num_sequences_; }  // of lines that can run
  int64_t num_requests() const { return prompts_.count(); }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t max_new_tokens() const { return max_new_tokens_; }  // all completions of maximum length
  const Histogram& prompts() const { return prompts_; }       // tokens
  const Histogram& completions() const { return completions_; }  // maximum tokens
  // The maximum of answer_bytes() over the lines.
  int64_t max_answer_bytes() const { return max_answer_bytes_; }
  int64_t max_kept_bytes() const { return max_kept_bytes_; }  // of a line, for its record
  int max_log_probs() const { return max_log_probs_; }  // candidates of a token; -1: none asked for
  bool asks_forms() const { return asks_forms_; }       // whether a line asks for a form
  int longest() const { return longest_; }  // maximum tokens of prompt and completion together
  const RequestSample& sample() const { return sample_; }
  // Prompt tokens that an unbounded cache would have when their request comes. Scaled up if the
  // sample is not whole.
  int64_t num_found() const;

 private:
  // Adds a prompt of a line. Returns the answer_bytes().
  int64_t add_request(const Request& request, int64_t line);

  const int max_model_len_;
  RequestSample sample_;
  int64_t num_lines_ = 0, num_sequences_ = 0, prompt_tokens_ = 0, max_new_tokens_ = 0;
  std::map<ErrorCode, int64_t> failed_by_code_;
  Histogram prompts_, completions_;
  int longest_ = 0, max_log_probs_ = -1;
  int64_t max_answer_bytes_ = 0, max_kept_bytes_ = 0;
  bool asks_forms_ = false;
};

}  // namespace pagedinfer
