#include "commands/plan/input_survey.h"

#include <algorithm>
#include <cmath>

#include "load/host_share.h"
#include "sched/sequence.h"

namespace pagedinfer {

void InputSurvey::add(const IntakeItem& item, const Scheduler& scheduler) {
  ++num_lines_;
  if (const Completion* const failed = std::get_if<Completion>(&item)) {
    ++failed_by_code_[failed->error.code];
    return;
  }
  const PreparedLine& line = std::get<PreparedLine>(item);
  if (const Result<> fits = scheduler.fits(line.prompts); !fits) {
    ++failed_by_code_[fits.error().code];
    return;
  }
  int64_t bytes = 0;
  for (const Request& request : line.prompts) bytes += add_request(request, num_lines_);
  max_answer_bytes_ = std::max(max_answer_bytes_, bytes);
  max_kept_bytes_ = std::max(max_kept_bytes_, std::ssize(line.head.kept));
}

// Counts each sample and beam as a sequence of its own. What they share is known only to the
// scheduler.
int64_t InputSurvey::add_request(const Request& request, int64_t line) {
  const auto num_prompt = static_cast<int>(request.prompt.size());
  const int64_t bound = bound_on_tokens(num_prompt, request.sampling.max_tokens, max_model_len_);
  const int max_new = static_cast<int>(bound) - num_prompt;
  const int num_samples = std::max(request.num_samples, request.sampling.beams.width);
  prompts_.add(num_prompt);
  completions_.add(max_new);
  longest_ = std::max(longest_, static_cast<int>(bound));
  num_sequences_ += num_samples;
  prompt_tokens_ += num_prompt;
  max_new_tokens_ += int64_t{num_samples} * max_new;
  sample_.add(request.prompt, {.num_prompt = num_prompt,
                               .max_new = max_new,
                               .num_samples = num_samples,
                               .shares = request.num_prompt_candidates() < 0,
                               .line = line});
  max_log_probs_ =
      std::max({max_log_probs_, request.num_candidates(), request.num_prompt_candidates()});
  asks_forms_ = asks_forms_ || !request.sampling.form.is_free();
  return answer_bytes(request, max_new);
}

int64_t InputSurvey::num_found() const {
  int64_t num_found = 0, num_tokens = 0;
  for (const SampledRequest& request : sample_.requests()) {
    num_found += request.num_found();
    num_tokens += request.num_prompt;
  }
  if (sample_.is_whole() || num_tokens == 0) return num_found;
  return std::llround(static_cast<double>(num_found) * static_cast<double>(prompt_tokens_) /
                      static_cast<double>(num_tokens));
}

}  // namespace pagedinfer
