#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "commands/plan/plan_report.h"
#include "core/refusal.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

constexpr double kFar = 2;  // a value this many times off the best one is worth advice
constexpr double kWorthSaving = 32 << 20;  // bytes

class Adviser {
 public:
  explicit Adviser(const PlanReport& report)
      : report_(report),
        survey_(report.survey),
        limits_(report.plan.limits),
        running_(report.rehearsal.running.mean()) {}

  std::vector<Advice> advice();

 private:
  void say(const char* flag, std::string text) { advice_.push_back({flag, std::move(text)}); }
  bool is_contiguous() const { return report_.plan.kv == Config::Kv::kContiguous; }
  double mean_length() const { return survey_.prompts().mean() + survey_.completions().mean(); }
  // How many sequences could run at once with enough memory for all of them.
  int64_t wanted() const { return std::min<int64_t>(limits_.max_running, survey_.num_sequences()); }
  bool is_short_of_memory() const {
    const bool waits = running_ * kFar < static_cast<double>(wanted());
    return waits || 10 * report_.rehearsal.num_preemptions > report_.rehearsal.num_requests;
  }
  int64_t bytes_of_wanted() const;  // of a cache for wanted() sequences
  // Bytes of a cache that holds `tokens` besides the admission reserve.
  int64_t with_reserve(double tokens) const;
  void advise_on_length();
  void advise_on_cache();
  void advise_on_large_cache();
  void advise_on_type();
  void advise_on_batch();
  void advise_on_prefixes();
  void advise_on_chunks();
  void advise_on_lines();

  const PlanReport& report_;
  const InputSurvey& survey_;
  const SchedulerLimits& limits_;
  const double running_;  // sequences at once
  std::vector<Advice> advice_;
};

// Only a contiguous cache reserves max_model_len positions for a sequence.
void Adviser::advise_on_length() {
  if (!is_contiguous() || kFar * survey_.longest() > limits_.max_model_len) return;
  say("--max-model-len",
      fmt::format("no line needs more than {} tokens; with {} in place of {} the cache would hold "
                  "{} sequences in place of {}. Or take --kv paged.",
                  grouped(survey_.longest()), survey_.longest(), limits_.max_model_len,
                  grouped(report_.num_positions() / std::max(survey_.longest(), 1)),
                  grouped(report_.num_reservations())));
}

int64_t Adviser::bytes_of_wanted() const {
  const double each = is_contiguous() ? limits_.max_model_len : mean_length();
  return with_reserve(each * static_cast<double>(wanted()));
}

int64_t Adviser::with_reserve(double tokens) const {
  const double all = tokens / std::max(1 - limits_.admission_reserve, 0.1);
  return static_cast<int64_t>(all * static_cast<double>(report_.plan.memory.kv_bytes_per_token));
}

// A contiguous cache is skipped: its reservations are needed whole.
void Adviser::advise_on_large_cache() {
  if (is_contiguous()) return;
  const MemoryPlan& memory = report_.plan.memory;
  const int64_t needed = with_reserve(static_cast<double>(report_.num_touched()));
  if (kFar * static_cast<double>(needed) > static_cast<double>(memory.kv_bytes)) return;
  if (static_cast<double>(memory.kv_bytes - needed) < kWorthSaving) return;
  constexpr int64_t kMiB = 1 << 20;
  say("--kv-memory", fmt::format("{}MiB are enough for this input; the cache has {}",
                                 needed / kMiB + 1, human_bytes(memory.kv_bytes)));
}

void Adviser::advise_on_cache() {
  advise_on_large_cache();
  const int64_t bytes = bytes_of_wanted();
  if (!is_short_of_memory() || bytes <= report_.plan.memory.kv_bytes) return;
  say("--kv-memory",
      fmt::format("{} sequences run at once on average, of {} that could, with {} preemptions; a "
                  "cache of {} would hold them (this one has {})",
                  three_digits(running_), grouped(wanted()),
                  grouped(report_.rehearsal.num_preemptions), human_bytes(bytes),
                  human_bytes(report_.plan.memory.kv_bytes)));
  advise_on_type();
}

// Advises a smaller type. REQUIRES: the cache is too small.
void Adviser::advise_on_type() {
  const MemoryPlan& memory = report_.plan.memory;
  const DType type = report_.plan.kv_type;
  if (size_of(type) != 2 || report_.int8_bytes_per_token == 0) return;
  const int64_t tokens = memory.kv_bytes / report_.int8_bytes_per_token;
  const double times = static_cast<double>(memory.kv_bytes_per_token) /
                       static_cast<double>(report_.int8_bytes_per_token);
  const double sequences = std::min(running_ * times, static_cast<double>(wanted()));
  say("--kv-dtype",
      fmt::format("in the same bytes, int8 would hold {} tokens in place of {} in {}, and so about "
                  "{} sequences at once in place of {}; completions change a little",
                  grouped(tokens), grouped(report_.num_positions()), name_of(type),
                  three_digits(sequences), three_digits(running_)));
}

void Adviser::advise_on_batch() {
  const auto max_running = static_cast<double>(limits_.max_running);
  const auto sequences = static_cast<double>(survey_.num_sequences());
  const double unused = 1 - sequences / max_running;
  if (sequences * kFar < max_running) {
    if (unused * static_cast<double>(report_.step.logits) < kWorthSaving) return;
    say("--max-batch-size",
        fmt::format("there are {} sequences; {} in place of {} takes less "
                    "memory for logits",
                    survey_.num_sequences(), survey_.num_sequences(), limits_.max_running));
    return;
  }
  const double each = is_contiguous() ? limits_.max_model_len : mean_length();
  const double fitting = static_cast<double>(report_.num_positions()) / std::max(each, 1.0) *
                         (1 - limits_.admission_reserve);
  const double possible = std::min(fitting, sequences);
  if (max_running > 64 || possible < kFar * max_running) return;
  say("--max-batch-size",
      fmt::format("the cache has room for about {} sequences of this input; more than {} at once "
                  "give more tokens a second",
                  grouped(std::llround(possible)), limits_.max_running));
}

void Adviser::advise_on_prefixes() {
  const int64_t lost = survey_.num_found() - report_.num_cached();
  if (10 * lost < survey_.prompt_tokens() || survey_.prompt_tokens() == 0) return;
  const std::string share =
      percent(static_cast<double>(lost) / static_cast<double>(survey_.prompt_tokens()));
  if (limits_.prefix_cache) {
    if (report_.rehearsal.num_evicted == 0) return;  // they ran at once
    say("--kv-memory",
        fmt::format("{} of the prompts' tokens are computed again because blocks that they share "
                    "with earlier ones had to make room",
                    share));
  } else {
    say("--prefix-cache", fmt::format("on saves {} of the prompts' tokens, which earlier prompts "
                                      "begin with too{}",
                                      share, is_contiguous() ? " (with --kv paged)" : ""));
  }
}

void Adviser::advise_on_chunks() {
  const double long_prompt = survey_.prompts().percentile(90);
  if (!limits_.chunked_prefill) {
    if (limits_.batching == Batching::kContinuous && long_prompt > 1024) {
      say("--chunked-prefill", "on lets other sequences go on while long prompts are computed");
    }
    return;
  }
  constexpr int kFewTokens = 64, kGoodChunk = 512;
  if (limits_.prefill_chunk_size <= kFewTokens && long_prompt > 4 * limits_.prefill_chunk_size) {
    say("--prefill-chunk-size",
        fmt::format("one in ten prompts takes {} steps or more; {} tokens in a step use the "
                    "device better than {}",
                    std::llround(long_prompt / limits_.prefill_chunk_size), kGoodChunk,
                    limits_.prefill_chunk_size));
  }
}

void Adviser::advise_on_lines() {
  const auto& failed = survey_.failed_by_code();
  if (const auto at = failed.find("exceeds_cache"); at != failed.end()) {
    say("--kv-memory",
        fmt::format("{} lines need more tokens than the whole cache has ({}); raise it, or lower "
                    "their max_tokens",
                    grouped(at->second), grouped(report_.num_positions())));
  }
  if (const auto at = failed.find("prompt_too_long");
      at != failed.end() && limits_.max_model_len < report_.max_positions) {
    say("--max-model-len",
        fmt::format("{} prompts are too long for {}; the model allows {}", grouped(at->second),
                    limits_.max_model_len, report_.max_positions));
  }
}

std::vector<Advice> Adviser::advice() {
  advise_on_lines();
  if (survey_.num_requests() == 0) return advice_;
  advise_on_length();
  advise_on_cache();
  advise_on_batch();
  advise_on_prefixes();
  advise_on_chunks();
  return advice_;
}

}  // namespace

std::vector<Advice> advice_for(const PlanReport& report) { return Adviser(report).advice(); }

}  // namespace pagedinfer
