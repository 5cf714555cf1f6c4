#include "stats/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/json.h"

namespace pagedinfer {
namespace {

// Rounded to a microsecond: clocks are not more precise.
double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }
double rounded(double number) { return std::round(number * 1e6) / 1e6; }
double five_digits(double number) { return std::stod(fmt::format("{:.5g}", number)); }

// Writes what every line begins with. `at` is in seconds on the run's clock.
void begin_line(JsonWriter& json, std::string_view kind, const RunStamp& run, double at) {
  json.begin_object()
      .field("kind", kind)
      .field("run_id", run.id)
      .field("time", time_of_day(run.began + at));
}

// Under the names of vLLM's benchmark_serving; `max` is our addition.
void add_spread(JsonWriter& json, std::string_view name, const Spread& spread) {
  const auto add = [&](std::string_view what, double seconds) {
    json.key(fmt::format("{}_{}_ms", what, name));
    if (spread.count > 0) {
      json.value(milliseconds(seconds));
    } else {
      json.value(nullptr);
    }
  };
  add("mean", spread.mean);
  add("median", spread.p50);
  add("std", spread.deviation);
  add("p50", spread.p50);
  add("p90", spread.p90);
  add("p99", spread.p99);
  add("max", spread.max);
}

void add_latencies(JsonWriter& json, const RequestStats& request) {
  std::vector<double> gaps = inter_token_latencies(request);
  std::sort(gaps.begin(), gaps.end());
  json.field("queue_ms", milliseconds(queue_time(request)))
      .field("ttft_ms", milliseconds(time_to_first_token(request)));
  if (gaps.empty()) {
    for (const char* name : {"tpot_ms", "itl_p50_ms", "itl_p99_ms", "itl_max_ms"}) {
      json.field(name, nullptr);
    }
  } else {
    const auto count = static_cast<int64_t>(gaps.size());
    const auto at = [&](double percent) {
      return milliseconds(gaps[static_cast<size_t>(nearest_rank(percent, count) - 1)]);
    };
    json.field("tpot_ms", milliseconds(time_per_output_token(request)))
        .field("itl_p50_ms", at(50))
        .field("itl_p99_ms", at(99))
        .field("itl_max_ms", at(100));
  }
  json.field("e2e_ms", milliseconds(end_to_end_latency(request)));
}

void add_counts(JsonWriter& json, const Summary& s) {
  json.field("completed", s.completed).field("failed", s.failed).field("resumed", s.resumed);
  json.key("failed_by_code").begin_object();
  for (const auto& [code, count] : s.failed_by_code) json.field(code, count);
  json.end_object();
  json.field("total_input_tokens", s.input_tokens)
      .field("total_output_tokens", s.output_tokens)
      .field("preemptions", s.preemptions)
      .field("recomputed_tokens", s.recomputed_tokens)
      .field("cached_tokens", s.cached_tokens)
      .field("found_tokens", s.found_tokens)
      .field("evicted_blocks", s.evicted_blocks)
      .field("kv_copies", s.kv_copies)
      .field("leaked_blocks", s.leaked_blocks)
      .field("duration", rounded(s.duration))
      .field("request_throughput", rounded(s.request_throughput))
      .field("input_throughput", rounded(s.input_throughput))
      .field("output_throughput", rounded(s.output_throughput))
      .field("total_throughput", rounded(s.total_throughput));
}

// The KV cache: bytes for each token held, unused positions included, and the positions that
// max-length reservations would have taken for the same work.
void add_kv(JsonWriter& json, const RunInfo& info, const Summary& s) {
  const auto position_bytes = static_cast<double>(info.kv_bytes_per_position);
  json.field("kv_use_peak", rounded(s.kv_use_peak))
      .field("kv_use_mean", rounded(s.kv_use_mean))
      .field("kv_slot_utilization", rounded(s.slot_utilization))
      .field("kv_internal_fragmentation", rounded(s.internal_fragmentation))
      .field("kv_positions_total", s.positions_total)
      .field("kv_positions_leased_peak", s.positions_leased_peak)
      .field("kv_tokens_held_peak", s.tokens_held_peak)
      .field("kv_tokens_served_peak", s.tokens_served_peak)
      .field("kv_bytes_saved_peak", s.positions_saved_peak * info.kv_bytes_per_position)
      .field("kv_bytes_per_position", info.kv_bytes_per_position);
  json.key("kv_bytes_per_token");
  if (s.slot_utilization > 0) {
    json.value(std::round(position_bytes / s.slot_utilization));
  } else {
    json.value(nullptr);
  }
  json.field("kv_contiguous_positions_peak", s.positions_contiguous_peak)
      .field("kv_contiguous_ratio", rounded(s.contiguous_ratio));
}

}  // namespace

void append_request_line(std::string& out, const RunStamp& run, const RequestStats& request) {
  JsonWriter json(out);
  begin_line(json, "request", run, request.finished);
  json.key("id").raw(request.head.id_json.empty() ? "null" : request.head.id_json);
  if (request.head.arrival) json.field("arrival_s", *request.head.arrival);
  json.field("index", request.head.index)
      .field("prompt_tokens", request.prompt_tokens)
      .field("completion_tokens", request.completion_tokens)
      .field("cached_tokens", request.cached_tokens)
      .field("preemptions", request.preemptions);
  if (request.failed()) {
    json.field("error", request.error_code.name());
  } else {
    add_latencies(json, request);
  }
  json.end_object();
  out += '\n';
}

void append_step_line(std::string& out, const RunStamp& run, const StepStats& step) {
  JsonWriter json(out);
  begin_line(json, "step", run, step.end);
  json.field("begin_s", rounded(step.begin))
      .field("end_s", rounded(step.end))
      .field("tokens", step.num_tokens)
      .field("prefill_tokens", step.num_prefill_tokens)
      .field("decode_tokens", step.num_decodes)
      .field("sampled", step.num_sampled)
      .field("surplus", step.num_surplus)
      .field("running", step.running)
      .field("waiting", step.waiting)
      .field("admitted", step.admitted)
      .field("preempted", step.preempted)
      .field("tokens_found", step.tokens_found)
      .field("copies", step.num_copies)
      .field("blocks_used", step.pool.num_leased)
      .field("blocks_evicted", step.pool.num_evicted)
      .field("positions_leased", step.pool.positions_leased)
      .field("positions_reusable", step.pool.positions_reusable)
      .field("positions_saved", step.pool.positions_saved)
      .field("tokens_held", step.cache.tokens_held)
      .field("tokens_served", step.cache.tokens_served)
      .field("positions_contiguous", step.cache.positions_contiguous)
      .field("plan_ms", milliseconds(step.times.plan))
      .field("stage_ms", milliseconds(step.times.stage))
      .field("forward_ms", milliseconds(step.times.forward))
      .field("sample_ms", milliseconds(step.times.sample))
      .field("commit_ms", milliseconds(step.times.commit))
      .end_object();
  out += '\n';
}

void append_profile_line(std::string& out, const RunStamp& run, double now,
                         const Profile& profile) {
  JsonWriter json(out);
  begin_line(json, "profile", run, now);
  json.field("peak_gb_per_s", five_digits(1e-9 * profile.peaks.bytes_per_second))
      .field("peak_tflop_per_s", five_digits(1e-12 * profile.peaks.flops_per_second))
      .field("peak_int8_tflop_per_s", five_digits(1e-12 * profile.peaks.int8_flops_per_second))
      .field("steps", profile.steps)
      .field("decode_steps", profile.decode_steps)
      .field("replayed_steps", profile.replayed_steps)
      .field("replayed_s", rounded(profile.replayed_seconds))
      .field("queued_decode_s", rounded(profile.queued_seconds))
      .field("op_s", rounded(profile.op_seconds()))
      .field("gap_s", rounded(profile.gaps.total));
  add_spread(json, "gap", profile.gaps.spread);
  add_spread(json, "decode_gap", profile.decode_gaps.spread);
  json.key("ops").begin_array();
  for (const OpProfile& op : profile.ops) {
    const auto per_second = [&](double amount) {
      return op.seconds > 0 ? five_digits(amount / op.seconds) : 0;
    };
    json.begin_object()
        .field("op", label_of(op.name))
        .field("decode_only", op.decode_only)
        .field("calls", op.calls)
        .field("time_s", rounded(op.seconds))
        .field("share", profile.seconds() > 0 ? five_digits(op.seconds / profile.seconds()) : 0)
        .field("bytes", five_digits(op.work.bytes))
        .field("flops", five_digits(op.work.flops))
        .field("gb_per_s", per_second(1e-9 * op.work.bytes))
        .field("tflop_per_s", per_second(1e-12 * op.work.flops))
        .field("bound_s", rounded(op.bound))
        .field("of_bound", per_second(op.bound))
        .end_object();
  }
  json.end_array().end_object();
  out += '\n';
}

void add_config(JsonWriter& json, const std::vector<ConfigEntry>& config) {
  json.begin_object();
  for (const ConfigEntry& setting : config) {
    json.key(setting.name);
    std::visit([&](const auto& value) { json.value(value); }, setting.value);
  }
  json.end_object();
}

void add_measurements(JsonWriter& json, const RunInfo& info, const Summary& s) {
  add_counts(json, s);
  add_spread(json, "queue", s.queue);
  add_spread(json, "ttft", s.ttft);
  add_spread(json, "tpot", s.tpot);
  add_spread(json, "itl", s.itl);
  add_spread(json, "e2el", s.e2e);
  add_kv(json, info, s);
  json.field("steps", s.steps)
      .field("step_tokens", s.step_tokens)
      .field("prefill_tokens", s.prefill_tokens)
      .field("decode_tokens", s.decode_tokens)
      .field("running_peak", s.peak_running)
      .field("running_mean", rounded(s.mean_running));
  json.field("time_total_s", rounded(s.total))
      .field("time_load_s", rounded(s.load))
      .field("time_tokenize_s", rounded(s.tokenize))
      .field("time_device_s", rounded(s.device))
      .field("time_host_s", rounded(s.host))
      .field("time_output_s", rounded(s.output));
}

void append_summary_line(std::string& out, const RunStamp& run, const RunInfo& info,
                         const Summary& s) {
  JsonWriter json(out);
  begin_line(json, "summary", run, s.total);
  json.field("version", info.version)
      .field("input", info.input)
      .field("model", info.model)
      .field("device", info.device);
  json.key("config");
  add_config(json, info.config);
  json.field("notes", info.notes);
  add_measurements(json, info, s);
  json.end_object();
  out += '\n';
}

}  // namespace pagedinfer
