#include "commands/plan/rehearsal.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "load/run.h"
#include "sched/line_turn.h"
#include "sched/scheduler.h"

namespace pagedinfer {
namespace {

class Rehearser {
 public:
  Rehearser(std::span<const SampledRequest> requests, const RehearsedRun& run)
      : requests_(requests),
        run_(run),
        pool_(make_pool(run.plan)),
        scheduler_(*pool_, run.plan.limits) {}

  Rehearsal play();

 private:
  bool submit_next();
  void add_next(std::list<Request>& line);
  std::vector<TokenId> tokens_of(size_t number) const;
  void count(const StepPlan& plan);
  void finish(const std::vector<Sequence>& sequences);

  const std::span<const SampledRequest> requests_;
  const RehearsedRun& run_;
  const std::unique_ptr<KvPool> pool_;
  Scheduler scheduler_;
  size_t next_ = 0;
  struct Line {
    std::list<Request> requests = {};
    std::optional<LineTurn> turn = {};
  };
  std::list<Line> lines_;                                        // that have not ended
  std::map<const Request*, std::list<Line>::iterator> line_of_;  // of their requests
  Rehearsal result_;
};

// Makes up a prompt. Each token is the number of the first request that has the same prefix up to
// that token, so the made-up prompts share the same prefixes as the prompts of the input.
std::vector<TokenId> Rehearser::tokens_of(size_t number) const {
  std::vector<TokenId> tokens(static_cast<size_t>(requests_[number].num_prompt));
  auto owner = static_cast<int32_t>(number);
  for (int end = requests_[number].num_prompt; end > 0;) {
    const SampledRequest& request = requests_[owner];
    const int begin = std::min(request.num_shared, end);
    std::fill(tokens.begin() + begin, tokens.begin() + end, owner);
    end = begin;
    owner = request.like;
  }
  return tokens;
}

// Submits the next line. Returns false if there are no more.
bool Rehearser::submit_next() {
  while (next_ < requests_.size() && result_.new_tokens < run_.max_tokens) {
    const auto line = lines_.emplace(lines_.end());
    const int64_t number = requests_[next_].line;
    add_next(line->requests);
    while (number >= 0 && next_ < requests_.size() && requests_[next_].line == number) {
      add_next(line->requests);
    }
    std::vector<const Request*> requests;
    for (const Request& request : line->requests) {
      requests.push_back(&request);
      line_of_.emplace(&request, line);
    }
    if (!requests.empty()) {
      line->turn.emplace(std::move(requests), scheduler_);
      return true;
    }
    lines_.erase(line);
  }
  return false;
}

// Adds the next request to its line if it has work.
void Rehearser::add_next(std::list<Request>& line) {
  const SampledRequest& sampled = requests_[next_];
  const int max_new = std::min(sampled.max_new, run_.max_new.value_or(sampled.max_new));
  ++result_.num_requests;
  result_.prompt_tokens += sampled.num_prompt;
  result_.new_tokens += int64_t{max_new} * sampled.num_samples;
  const size_t number = next_++;
  const bool has_work = max_new > 0 || (!sampled.shares && sampled.num_prompt > 1);
  if (!has_work) return;
  Request& request = line.emplace_back();
  request.prompt = tokens_of(number);
  request.sampling.max_tokens = max_new;
  request.num_samples = sampled.num_samples;
  request.num_prompt_log_probs = sampled.shares ? -1 : 0;
}

void Rehearser::count(const StepPlan& plan) {
  ++result_.num_steps;
  result_.running.add(scheduler_.num_running());
  result_.num_preemptions += plan.num_preempted;
  const KvStats kv = pool_->stats();
  result_.max_positions = std::max(result_.max_positions, kv.positions_leased);
  result_.num_evicted = kv.num_evicted;
}

void Rehearser::finish(const std::vector<Sequence>& sequences) {
  for (const Sequence& seq : sequences) {
    result_.num_cached += seq.num_found;
    const auto line = line_of_.at(seq.request);
    if (!line->turn->on_end(seq)) continue;
    for (const Request& request : line->requests) line_of_.erase(&request);
    lines_.erase(line);
  }
}

Rehearsal Rehearser::play() {
  // All drawn tokens differ. They are above all numbers of requests, so that they equal no token of
  // a prompt.
  constexpr TokenId kNew = 1 << 30;
  int64_t num_drawn = 0;
  std::vector<DrawnToken> drawn;
  while (true) {
    while (!scheduler_.input_ended() && !scheduler_.window_full()) {
      if (!submit_next()) scheduler_.end_input();
    }
    if (scheduler_.idle()) return std::move(result_);
    run_.before_step();
    const StepPlan plan = scheduler_.plan(
        [this](const Sequence& seq) { line_of_.at(seq.request)->turn->on_admit(seq); });
    count(plan);
    scheduler_.advance(plan);
    drawn.clear();
    while (drawn.size() < plan.draws.size()) {
      drawn.push_back({.token = kNew + static_cast<TokenId>(num_drawn++ % kNew)});
    }
    const auto end_of = [](const Sequence& seq, const DrawnToken&) {
      const bool is_last = seq.num_known() == seq.max_tokens;
      return is_last ? std::optional(FinishReason::kLength) : std::nullopt;
    };
    finish(scheduler_.commit(plan, drawn, end_of).finished);
  }
}

}  // namespace

void RunningCounts::add(int running) {
  const auto index = static_cast<size_t>(running);
  if (num_steps_.size() <= index) num_steps_.resize(index + 1);
  ++num_steps_[index];
}

double RunningCounts::mean() const {
  int64_t steps = 0, sum = 0;
  for (size_t i = 0; i < num_steps_.size(); ++i) {
    steps += num_steps_[i];
    sum += static_cast<int64_t>(i) * num_steps_[i];
  }
  return steps == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(steps);
}

int RunningCounts::percentile(double percent) const {
  const auto steps = std::accumulate(num_steps_.begin(), num_steps_.end(), int64_t{0});
  const double wanted = percent / 100 * static_cast<double>(steps);
  int64_t sum = 0;
  for (size_t i = 0; i < num_steps_.size(); ++i) {
    sum += num_steps_[i];
    if (sum > 0 && static_cast<double>(sum) >= wanted) return static_cast<int>(i);
  }
  return max();
}

Rehearsal rehearse(std::span<const SampledRequest> requests, const RehearsedRun& run) {
  return Rehearser(requests, run).play();
}

}  // namespace pagedinfer
