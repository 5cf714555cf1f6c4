#include "jobs/output_costs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "stats/lines.h"
#include "stats/report.h"
#include "text/stop_strings.h"

namespace pagedinfer {
namespace {

// As RequestTracker and Outlets make it.
void make(const MeasuredOutput& output, int num_tokens, std::string& lines, Report& report) {
  const SamplingParams& params = output.sampling;
  Completion completion = {.num_prompt_tokens = 1, .num_completion_tokens = num_tokens};
  CompletionChoice& choice = completion.choices.emplace_back();
  RequestStats stats = {.prompt_tokens = 1, .completion_tokens = num_tokens};
  std::vector<double>& times = stats.token_times.emplace_back();
  std::optional<TextStream> text;
  if (output.tokenizer != nullptr) {
    text.emplace(*output.tokenizer, params.stop,
                 TextOptions{.show_special = !params.skip_special, .keep_stop = params.keep_stop});
  }
  for (int i = 0; i < num_tokens; ++i) {
    constexpr int64_t kStride = 7919;  // a prime: tokens of the whole vocabulary
    const auto token = static_cast<TokenId>(i * kStride % output.vocab);
    choice.tokens.push_back(token);
    times.push_back(i);
    if (text) text->push(token, false);
  }
  if (text) choice.text = text->finish();
  append_record(lines, completion, output.record);
  report.add(stats);
  append_request_line(lines, {}, stats);
}

}  // namespace

OutputCosts measure_output(const MeasuredOutput& output, const std::function<double()>& clock) {
  constexpr int kTimes = 9, kMoreTokens = 512;
  std::string lines;
  Report report;
  const auto seconds_of = [&](int num_tokens) {
    std::vector<double> times;
    for (int i = 0; i < kTimes; ++i) {
      lines.clear();
      const double begin = clock();
      make(output, num_tokens, lines, report);
      times.push_back(clock() - begin);
    }
    std::ranges::nth_element(times, times.begin() + kTimes / 2);
    return times[kTimes / 2];
  };
  const double least = seconds_of(1);
  const double more = std::max(0.0, seconds_of(1 + kMoreTokens) - least);
  const double per_token = more / kMoreTokens;
  return {.per_completion = std::max(0.0, least - per_token), .per_token = per_token};
}

}  // namespace pagedinfer
