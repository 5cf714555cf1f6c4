#include "stats/statistics.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace pagedinfer {
namespace {

using enum Unit;

template <class Struct, class Field>
Struct struct_with(Field Struct::*);

// Reads a member, or a member of a member.
template <auto kMember, auto... kMore>
Measure field(const decltype(struct_with(kMember))& of) {
  const auto& value = ((of.*kMember).*....*kMore);
  if constexpr (std::is_same_v<decltype(value), const int&>) {
    return int64_t{value};
  } else {
    return value;
  }
}

// A number that is worked out.
template <class Of>
constexpr Statistic<Of> row(std::string_view name, Unit unit, std::string_view help,
                            const Shown& shown, Measure (*get)(const Of&)) {
  return {name, unit, get, help, shown};
}

template <class Of, class Get>
constexpr Statistic<Of> row(std::string_view name, Unit unit, std::string_view help,
                            const Shown& shown, Get) {
  return {name, unit, [](const Of& of) -> Measure { return Get{}(of); }, help, shown};
}

// A member as it is.
template <auto kMember, auto... kMore>
constexpr auto row(std::string_view name, Unit unit, std::string_view help,
                   const Shown& shown = {}) {
  return Statistic<decltype(struct_with(kMember))>{name, unit, field<kMember, kMore...>, help,
                                                   shown};
}

Measure share(int64_t part, int64_t whole) {
  return ratio(static_cast<double>(part), static_cast<double>(whole));
}

template <double (*kTime)(const RequestStats&)>
Measure time_of(const RequestStats& r) {
  return r.failed() ? Measure() : kTime(r);
}

// The nearest-rank percentile of the gaps between tokens.
template <int kPercent>
Measure gap_of(const RequestStats& r) {
  std::vector<double> gaps;
  if (!r.failed()) gaps = inter_token_latencies(r);
  if (gaps.empty()) return {};
  const auto nth = gaps.begin() + nearest_rank(kPercent, std::ssize(gaps)) - 1;
  std::ranges::nth_element(gaps, nth);
  return *nth;
}

constexpr Statistic<RequestStats> kOfRequest[] = {
    row<RequestStats>(
        "id", kJson, "the line's id, or null", {},
        [](const auto& r) { return r.head.id_json.empty() ? Measure() : r.head.id_json; }),
    row<&RequestStats::head, &RecordHead::index>("index", kCount, "as in the record"),
    row<RequestStats>(
        "arrival_s", kSeconds,
        "the line's `arrival_s`, or the last one before it ([records](records.md#arrivals)); null "
        "if there is none",
        {}, [](const auto& r) { return r.head.arrival ? *r.head.arrival : Measure(); }),
    row<&RequestStats::prompt_tokens>("prompt_tokens", kCount, "as in the record"),
    row<&RequestStats::completion_tokens>(
        "completion_tokens", kCount,
        "as in the record, but equal completions that are computed once count once"),
    row<&RequestStats::cached_tokens>(
        "cached_tokens", kCount,
        "prompt tokens that were in the cache when they were first needed, so they were not "
        "computed"),
    row<&RequestStats::preemptions>("preemptions", kCount, "how often it lost its cache positions"),
    row<RequestStats>(
        "queue_ms", kMilliseconds,
        "from its line's arrival to the beginning of the first step that computes a part of it", {},
        time_of<queue_time>),
    row<RequestStats>("ttft_ms", kMilliseconds,
                      "time to first token: from its line's arrival to its first token", {},
                      time_of<time_to_first_token>),
    row<RequestStats>(
        "tpot_ms", kMilliseconds,
        "time per output token: the mean of its inter-token latencies, which are the gaps between "
        "two tokens; null for a completion of one token, as the next three",
        {},
        [](const auto& r) {
          return gap_of<50>(r).index() == 0 ? Measure() : time_per_output_token(r);
        }),
    row<RequestStats>("itl_p50_ms", kMilliseconds, "the median of these gaps", {}, gap_of<50>),
    row<RequestStats>("itl_p99_ms", kMilliseconds, "their 99th percentile", {}, gap_of<99>),
    row<RequestStats>("itl_max_ms", kMilliseconds, "the largest of them", {}, gap_of<100>),
    row<RequestStats>("e2e_ms", kMilliseconds, "from its line's arrival to its last token", {},
                      time_of<end_to_end_latency>),
    row<RequestStats>(
        "error", kText,
        "the error code of a request that failed, whose times are null; null if it completed", {},
        [](const auto& r) { return r.failed() ? std::string(r.error_code.name()) : Measure(); }),
};

template <auto kMember, auto... kMore>
void add(const StepStats& step, StepStats& sum, StepStats& peak) {
  const auto value = ((step.*kMember).*....*kMore);
  auto& highest = ((peak.*kMember).*....*kMore);
  ((sum.*kMember).*....*kMore) += value;
  highest = std::max(highest, value);
}

template <auto... kPath>
constexpr StepStatistic step(std::string_view name, std::string_view help, Unit unit = kCount) {
  return {row<kPath...>(name, unit, help), add<kPath...>};
}

constexpr StepStatistic kOfStep[] = {
    step<&StepStats::begin>(
        "begin_s",
        "on the run's clock, before planning. On a GPU a step begins before the one before has "
        "ended",
        kSeconds),
    step<&StepStats::end>("end_s", "when the requests that it finished were handed out", kSeconds),
    step<&StepStats::num_tokens>("tokens", "tokens that the step computed"),
    step<&StepStats::num_prefill_tokens>("prefill_tokens",
                                         "of these, tokens of prompts or computed again"),
    step<&StepStats::num_decodes>("decode_tokens", "of these, last tokens of running sequences"),
    step<&StepStats::num_sampled>("sampled", "tokens drawn"),
    step<&StepStats::num_surplus>(
        "surplus", "of these, discarded because their sequences had ended in the step before"),
    step<&StepStats::running>("running", "sequences that run, as the step was planned"),
    step<&StepStats::waiting>("waiting", "sequences that wait"),
    step<&StepStats::admitted>("admitted", "sequences that begin to run"),
    step<&StepStats::preempted>("preempted", "sequences that lose their cache positions"),
    step<&StepStats::tokens_found>(
        "tokens_found", "tokens that the step needed and did not compute: they were in the cache"),
    step<&StepStats::num_copies>(
        "copies", "blocks, or reservations, that were copied before the step wrote to the cache"),
    step<&StepStats::pool, &KvStats::positions_total>("positions_total", "positions of the cache"),
    step<&StepStats::pool, &KvStats::positions_leased>(
        "positions_leased", "of these, positions that sequences hold; shared ones count once"),
    step<&StepStats::pool, &KvStats::positions_reusable>(
        "positions_reusable", "of these, positions that no sequence holds and that can be found"),
    step<&StepStats::pool, &KvStats::positions_saved>(
        "positions_saved", "positions more that the sequences would hold without sharing"),
    step<&StepStats::pool, &KvStats::num_leased>("blocks_used", "blocks that sequences hold"),
    step<&StepStats::pool, &KvStats::num_evicted>(
        "blocks_evicted", "blocks that could be found and made room for others, so far"),
    step<&StepStats::cache, &CacheUse::tokens_held>(
        "tokens_held", "positions that hold a token; shared ones count once"),
    step<&StepStats::cache, &CacheUse::tokens_served>(
        "tokens_served", "the same, where shared ones count for each sequence"),
    step<&StepStats::cache, &CacheUse::positions_contiguous>(
        "positions_contiguous",
        "positions that reservations of `--max-model-len` would hold for the same sequences"),
    step<&StepStats::times, &StepTimes::plan>("plan_ms", "choosing what to compute", kMilliseconds),
    step<&StepStats::times, &StepTimes::stage>("stage_ms", "copying it to the device",
                                               kMilliseconds),
    step<&StepStats::times, &StepTimes::forward>("forward_ms", "the model; on a GPU, queuing it",
                                                 kMilliseconds),
    step<&StepStats::times, &StepTimes::sample>(
        "sample_ms", "drawing tokens; on a GPU, waiting for them", kMilliseconds),
    step<&StepStats::times, &StepTimes::commit>("commit_ms", "text, stop strings and handing out",
                                                kMilliseconds),
};

// A number of the steps, added up, or its largest value.
template <auto... kPath>
constexpr auto sum(std::string_view name, std::string_view help, const Shown& shown = {}) {
  return row<&Summary::sum, kPath...>(name, kCount, help, shown);
}
template <auto... kPath>
constexpr auto peak(std::string_view name, std::string_view help, const Shown& shown = {}) {
  return row<&Summary::peak, kPath...>(name, kCount, help, shown);
}

constexpr Statistic<Summary> kOfRun[] = {
    row<&Summary::completed>("completed", kCount, "requests of this run that completed",
                             {"requests", "{} completed"}),
    row<&Summary::failed>("failed", kCount, "requests of this run that failed",
                          {"requests", "{} failed"}),
    row<&Summary::resumed>("resumed", kCount,
                           "records of earlier runs that this one kept; they count nowhere else",
                           {"requests", "{} resumed"}),
    row<&Summary::failed_by_code>("failed_by_code", kCount, "error code to number of requests"),
    row<&Summary::input_tokens>("total_input_tokens", kCount,
                                "tokens of the prompts of completed requests", {"tokens", "{} in"}),
    row<&Summary::output_tokens>("total_output_tokens", kCount, "tokens of their completions",
                                 {"tokens", "{} out"}),
    row<&Summary::duration>(
        "duration", kSeconds,
        "from the reading of the first completed line, or the first step if that is earlier, to "
        "the last completion or end of a step",
        {"", "", "duration"}),
    row<Summary>("request_throughput", kPerSecond, "completed requests per second of `duration`",
                 {"throughput", "{} requests/s", "requests/s"},
                 [](const auto& s) { return s.per_second(s.completed); }),
    row<Summary>("input_throughput", kPerSecond, "prompt tokens per second of `duration`",
                 {"", "{} tokens/s in"},
                 [](const auto& s) { return s.per_second(s.input_tokens); }),
    row<Summary>("output_throughput", kPerSecond, "completion tokens per second of `duration`",
                 {"", "{} out", "tokens/s out"},
                 [](const auto& s) { return s.per_second(s.output_tokens); }),
    row<Summary>("total_token_throughput", kPerSecond,
                 "both kinds of tokens per second of `duration`", {"", "{} total"},
                 [](const auto& s) { return s.per_second(s.input_tokens + s.output_tokens); }),
    row<&Summary::queue>("queue", kMilliseconds, "`queue_ms` of completed requests"),
    row<&Summary::ttft>("ttft", kMilliseconds, "`ttft_ms` of completed requests",
                        {"TTFT", "", "TTFT"}),
    row<&Summary::tpot>("tpot", kMilliseconds, "`tpot_ms` of those of two tokens or more",
                        {"TPOT"}),
    row<&Summary::itl>("itl", kMilliseconds, "all gaps between two tokens of completed requests",
                       {"ITL", "", "ITL"}),
    row<&Summary::e2e>("e2el", kMilliseconds, "`e2e_ms` of completed requests",
                       {"E2EL", "", "E2EL"}),
    row<Summary>("kv_use_peak", kShare, "positions leased over all positions: peak",
                 {"KV cache", "peak {}", "cache peak"},
                 [](const auto& s) { return s.peak.pool.utilization(); }),
    row<Summary>("kv_use_mean", kShare, "positions leased over all positions: mean over the steps",
                 {"KV cache", "mean {}"}, [](const auto& s) { return s.sum.pool.utilization(); }),
    row<Summary>("kv_slot_utilization", kShare, "positions that hold a token over positions leased",
                 {"KV cache", "{} of leased slots hold tokens"},
                 [](const auto& s) { return s.slot_utilization(); }),
    row<Summary>("kv_internal_fragmentation", kShare, "1 less that", {},
                 [](const auto& s) { return s.steps > 0 ? 1 - s.slot_utilization() : 0; }),
    peak<&StepStats::pool, &KvStats::positions_total>("kv_positions_total",
                                                      "positions of the cache"),
    peak<&StepStats::pool, &KvStats::positions_leased>(
        "kv_positions_leased_peak", "most positions leased at once; shared ones count once"),
    peak<&StepStats::cache, &CacheUse::tokens_held>(
        "kv_tokens_held_peak", "most positions filled at once; shared ones count once"),
    peak<&StepStats::cache, &CacheUse::tokens_served>(
        "kv_tokens_served_peak", "the same, where shared ones count for each sequence"),
    row<Summary>(
        "kv_bytes_saved_peak", kBytes, "most bytes that sharing saved at once", {},
        [](const auto& s) { return s.peak.pool.positions_saved * s.kv_bytes_per_position; }),
    row<&Summary::kv_bytes_per_position>("kv_bytes_per_position", kBytes,
                                         "keys and values of a position in all layers"),
    row<Summary>("kv_bytes_per_token", kBytes,
                 "the same over `kv_slot_utilization`, so with the waste", {},
                 [](const auto& s) {
                   const double bytes = ratio(s.kv_bytes_per_position, s.slot_utilization());
                   return bytes > 0 ? Measure(int64_t{std::llround(bytes)}) : Measure();
                 }),
    peak<&StepStats::cache, &CacheUse::positions_contiguous>(
        "kv_contiguous_positions_peak",
        "most positions that reservations of `--max-model-len` would hold for the same sequences"),
    row<Summary>("kv_contiguous_ratio", kNumber,
                 "positions of such reservations over positions leased: mean over the steps",
                 {"", "contiguous would reserve {} times as much"},
                 [](const auto& s) {
                   return share(s.sum.cache.positions_contiguous, s.sum.pool.positions_leased);
                 }),
    sum<&StepStats::preempted>("preemptions", "how often a sequence lost its cache positions",
                               {"preemptions", "{}", "preemptions"}),
    row<&Summary::recomputed_tokens>(
        "recomputed_tokens", kCount,
        "tokens computed again because of that, or because a sample found no room when its prompt "
        "was computed",
        {"again", "{} tokens were computed again"}),
    sum<&StepStats::tokens_found>(
        "found_tokens",
        "tokens that were needed and not computed, because they were found in the cache, after a "
        "preemption too; a sample that forks from its prompt looks for none",
        {"cache hits", "{} tokens"}),
    row<&Summary::cached_tokens>("cached_tokens", kCount,
                                 "prompt tokens of completed requests that were in the cache when "
                                 "they were first needed"),
    row<Summary>("cached_share", kShare, "`cached_tokens` over `total_input_tokens`",
                 {"cache hits", "{} of the prompts'"},
                 [](const auto& s) { return share(s.cached_tokens, s.input_tokens); }),
    peak<&StepStats::pool, &KvStats::num_evicted>(
        "evicted_blocks", "blocks that could be found and made room for others",
        {"cache hits", "{} blocks evicted"}),
    sum<&StepStats::num_copies>(
        "kv_copies",
        "copies on write: of blocks that several sequences held, for the one that wrote to them; "
        "with `--kv contiguous` of the prompts of further samples, and of beams"),
    row<&Summary::steps>("steps", kCount, "number of steps", {"steps", "{}"}),
    sum<&StepStats::num_tokens>("step_tokens", "tokens that the steps computed"),
    row<Summary>("step_tokens_mean", kNumber, "tokens of a step: mean",
                 {"steps", "{} tokens on average"},
                 [](const auto& s) { return share(s.sum.num_tokens, s.steps); }),
    sum<&StepStats::num_prefill_tokens>("prefill_tokens",
                                        "of `step_tokens`, tokens of prompts or computed again"),
    sum<&StepStats::num_decodes>("decode_tokens",
                                 "of `step_tokens`, last tokens of running sequences"),
    peak<&StepStats::running>("running_peak", "most sequences that ran at once",
                              {"steps", "at most {} running", "running peak"}),
    row<Summary>("running_mean", kNumber, "sequences that ran: mean over the steps",
                 {"", "", "running mean"},
                 [](const auto& s) { return share(s.sum.running, s.steps); }),
    row<&Summary::times, &RunTimes::total>("time_total_s", kSeconds, "from start to end",
                                           {"time", "{} in all"}),
    row<&Summary::times, &RunTimes::load>(
        "time_load_s", kSeconds,
        "until the model is ready, on a GPU with a few steps whose results are discarded",
        {"time", "{} load"}),
    row<&Summary::times, &RunTimes::tokenize>(
        "time_tokenize_s", kSeconds,
        "parsing and tokenizing: processor time of threads that run beside the rest, summed",
        {"time", "{} tokenize"}),
    row<Summary>(
        "time_device_s", kSeconds, "staging, the model and sampling", {"", "{} device"},
        [](const auto& s) { return s.sum.times.stage + s.sum.times.forward + s.sum.times.sample; }),
    row<Summary>("time_host_s", kSeconds, "planning and handing out", {"", "{} host"},
                 [](const auto& s) { return s.sum.times.plan + s.sum.times.commit; }),
    row<&Summary::times, &RunTimes::output>("time_output_s", kSeconds,
                                            "writing records and statistics", {"", "{} output"}),
};

constexpr Statistic<Profile> kOfProfile[] = {
    row<Profile>("peak_gb_per_s", kAmount, "the measured bandwidth", {},
                 [](const auto& p) { return 1e-9 * p.peaks.bytes_per_second; }),
    row<Profile>("peak_tflop_per_s", kAmount, "the measured peak of multiplications", {},
                 [](const auto& p) { return 1e-12 * p.peaks.flops_per_second; }),
    row<Profile>("peak_int8_tflop_per_s", kAmount,
                 "the same in int8; 0 where no product has inputs in int8", {},
                 [](const auto& p) { return 1e-12 * p.peaks.int8_flops_per_second; }),
    row<&Profile::steps>("steps", kCount, "all steps"),
    row<&Profile::decode_steps>("decode_steps", kCount, "of these, steps of decodes only"),
    row<&Profile::replayed_steps>("replayed_steps", kCount, "of those, replayed steps"),
    row<&Profile::replayed_seconds>("replayed_s", kSeconds,
                                    "replayed decode steps, without sampling"),
    row<&Profile::queued_seconds>("queued_decode_s", kSeconds,
                                  "the other decode steps, without sampling"),
    row<Profile>("op_s", kSeconds, "operations", {}, [](const auto& p) { return p.op_seconds(); }),
    row<&Profile::gaps, &GapProfile::total>("gap_s", kSeconds, "gaps"),
    row<&Profile::gaps, &GapProfile::spread>("gap", kMilliseconds, "gaps of all steps"),
    row<&Profile::decode_gaps, &GapProfile::spread>("decode_gap", kMilliseconds,
                                                    "gaps of decode steps"),
};

constexpr Statistic<OpProfile> kOfOp[] = {
    row<OpProfile>("op", kText,
                   "its name; `matmul 128x512` is inputs x outputs. `matmul and gate 128x512` is "
                   "the products gate and up with the gate, where a device fuses them",
                   {}, [](const auto& op) { return label_of(op.name); }),
    row<&OpProfile::decode_only>("decode_only", kText, "whether it is of decode steps"),
    row<&OpProfile::calls>("calls", kCount, "how often it ran"),
    row<&OpProfile::seconds>("time_s", kSeconds, "its time"),
    row<&OpProfile::share>("share", kAmount, "its time over the time of operations and gaps"),
    row<&OpProfile::work, &OpWork::bytes>("bytes", kAmount, "bytes that it must move"),
    row<&OpProfile::work, &OpWork::flops>("flops", kAmount, "its floating-point operations"),
    row<OpProfile>("gb_per_s", kAmount, "`bytes` over `time_s`", {},
                   [](const auto& op) { return 1e-9 * ratio(op.work.bytes, op.seconds); }),
    row<OpProfile>("tflop_per_s", kAmount, "`flops` over `time_s`", {},
                   [](const auto& op) { return 1e-12 * ratio(op.work.flops, op.seconds); }),
    row<&OpProfile::bound>("bound_s", kSeconds, "the least time"),
    row<OpProfile>("of_bound", kAmount, "`bound_s` over `time_s`", {},
                   [](const auto& op) { return ratio(op.bound, op.seconds); }),
};

}  // namespace

std::span<const Statistic<RequestStats>> request_statistics() { return kOfRequest; }
std::span<const StepStatistic> step_statistics() { return kOfStep; }
std::span<const Statistic<Summary>> summary_statistics() { return kOfRun; }
std::span<const Statistic<Profile>> profile_statistics() { return kOfProfile; }
std::span<const Statistic<OpProfile>> op_statistics() { return kOfOp; }

}  // namespace pagedinfer
