#include <doctest/doctest.h>
#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "stats/lines.h"

namespace pagedinfer {
namespace {

const RunStamp kRun = {.id = "a run", .began = 1732268463.5};

// Parses one line that must end in its only newline.
class Line {
 public:
  explicit Line(const std::string& text) {
    REQUIRE(text.find('\n') == text.size() - 1);
    root_ = parser_.parse(text);
  }
  simdjson::dom::element at(const std::string& pointer) const {
    INFO(pointer);
    simdjson::dom::element element;
    REQUIRE(root_.at_pointer(pointer).get(element) == simdjson::SUCCESS);
    return element;
  }
  double number(const std::string& pointer) const {
    double value = -1;
    INFO(pointer);
    CHECK(at(pointer).get(value) == simdjson::SUCCESS);
    return value;
  }
  std::string text(const std::string& pointer) const { return std::string(at(pointer)); }
  bool has(const std::string& pointer) const {
    return root_.at_pointer(pointer).error() == simdjson::SUCCESS;
  }

 private:
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

RequestStats completed_request() {
  RequestStats request;
  request.head.index = 5;
  request.head.id_json = "\"a \\\"quoted\\\" id\"";
  request.head.arrived = 1, request.admitted = 1.25, request.first_token = 2;
  request.token_times = {{2, 2.5, 2.75, 3.75}};
  request.finished = 4;
  request.prompt_tokens = 11, request.completion_tokens = 4, request.preemptions = 1;
  return request;
}

TEST_CASE("stats: a request's line has the keys and numbers of the request") {
  std::string out;
  append_request_line(out, kRun, completed_request());
  const Line line(out);
  CHECK(line.text("/id") == "a \"quoted\" id");
  CHECK(line.number("/index") == 5);
  CHECK(line.number("/prompt_tokens") == 11);
  CHECK(line.number("/completion_tokens") == 4);
  CHECK(line.number("/preemptions") == 1);
  CHECK(line.number("/queue_ms") == 250);
  CHECK(line.number("/ttft_ms") == 1000);
  CHECK(line.number("/tpot_ms") == doctest::Approx(583.333));
  CHECK(line.number("/itl_p50_ms") == 500);
  CHECK(line.number("/itl_p99_ms") == 1000);
  CHECK(line.number("/itl_max_ms") == 1000);
  CHECK(line.number("/e2e_ms") == 3000);
}

TEST_CASE("stats: a request of one token has no time between tokens") {
  RequestStats request = completed_request();
  request.head.id_json = "";
  request.token_times = {{2}};
  std::string out;
  append_request_line(out, kRun, request);
  const Line line(out);
  CHECK(line.at("/id").is_null());
  for (const char* key : {"/tpot_ms", "/itl_p50_ms", "/itl_p99_ms", "/itl_max_ms"}) {
    CHECK(line.at(key).is_null());
  }
  CHECK(line.number("/ttft_ms") == 1000);
}

TEST_CASE("stats: a failed request's line has its code and no times") {
  RequestStats request;
  request.head.id_json = "17";
  request.error_code = "prompt_too_long";
  std::string out;
  append_request_line(out, kRun, request);
  const Line line(out);
  CHECK(line.number("/id") == 17);
  CHECK(line.text("/error") == "prompt_too_long");
  CHECK(line.at("/ttft_ms").is_null());
}

TEST_CASE("stats: a step's line has the numbers of the step") {
  StepStats step;
  step.begin = 1.5, step.end = 1.75;
  step.num_tokens = 20, step.num_prefill_tokens = 16, step.num_decodes = 4, step.num_sampled = 5;
  step.num_surplus = 3;
  step.running = 6, step.waiting = 7, step.admitted = 2, step.preempted = 1;
  step.pool.num_leased = 31, step.pool.positions_leased = 496, step.cache.tokens_held = 450;
  step.cache.positions_contiguous = 6144;
  step.times = {.plan = 1e-3, .stage = 2e-3, .forward = 3e-3, .sample = 4e-3, .commit = 5e-3};
  std::string out;
  append_step_line(out, kRun, step);
  const Line line(out);
  const std::pair<const char*, double> expected[] = {
      {"/begin_s", 1.5},     {"/end_s", 1.75},
      {"/tokens", 20},       {"/prefill_tokens", 16},
      {"/decode_tokens", 4}, {"/sampled", 5},
      {"/running", 6},       {"/waiting", 7},
      {"/admitted", 2},      {"/preempted", 1},
      {"/blocks_used", 31},  {"/positions_leased", 496},
      {"/tokens_held", 450}, {"/positions_contiguous", 6144},
      {"/plan_ms", 1},       {"/stage_ms", 2},
      {"/forward_ms", 3},    {"/sample_ms", 4},
      {"/commit_ms", 5},     {"/surplus", 3}};
  for (const auto& [key, value] : expected) CHECK(line.number(key) == value);
}

TEST_CASE("stats: the summary tells what ran and every number of it") {
  RunInfo info;
  info.version = "1.2.3", info.input = "p\\q.jsonl", info.model = "m", info.device = "cpu, avx2";
  info.config = {{"kv", std::string("paged")},
                 {"block_size", int64_t{16}},
                 {"admission_reserve", 0.2},
                 {"token_ids", true}};
  info.notes = {"chunked prefill is off: batching is static"};

  Summary s;
  s.completed = 1, s.failed = 2, s.failed_by_code = {{ErrorCode("invalid_json"), 2}};
  s.input_tokens = 3, s.output_tokens = 4, s.recomputed_tokens = 7, s.duration = 8;
  s.kv_bytes_per_position = 1000;
  double seconds = 0.012;
  for (Spread* spread : {&s.queue, &s.ttft, &s.tpot, &s.itl, &s.e2e}) {
    spread->count = 2;
    for (double* value : {&spread->mean, &spread->deviation, &spread->p50, &spread->p90,
                          &spread->p99, &spread->max}) {
      *value = seconds;
      seconds += 0.001;
    }
  }
  s.steps = 10, s.sum.num_tokens = 38, s.sum.num_prefill_tokens = 39, s.sum.num_decodes = 40;
  s.peak.running = 41, s.sum.running = 42, s.sum.preempted = 6, s.sum.tokens_found = 43;
  s.peak.pool = {.positions_total = 46, .positions_leased = 23, .positions_saved = 3};
  s.sum.pool = {.positions_total = 500, .positions_leased = 100};
  s.sum.cache = {.tokens_held = 80, .positions_contiguous = 450};
  s.peak.cache = {.tokens_held = 49, .positions_contiguous = 48};
  s.times = {.load = 51, .tokenize = 52, .output = 55, .total = 56};
  s.sum.times = {.plan = 53, .stage = 50, .forward = 2, .sample = 1, .commit = 1};

  std::string out;
  append_summary(out, kRun, info, s, {});
  const Line line(out);
  CHECK(line.text("/version") == "1.2.3");
  CHECK(line.text("/input") == "p\\q.jsonl");
  CHECK(line.text("/model") == "m");
  CHECK(line.text("/device") == "cpu, avx2");
  CHECK(line.text("/config/kv") == "paged");
  CHECK(line.number("/config/block_size") == 16);
  CHECK(line.number("/config/admission_reserve") == 0.2);
  CHECK(bool(line.at("/config/token_ids")));
  CHECK(line.text("/notes/0") == info.notes[0]);

  double milliseconds = 12;
  for (const std::string spread : {"queue", "ttft", "tpot", "itl", "e2el"}) {
    const auto at = [&](const std::string& what) {
      return line.number("/" + what + "_" + spread + "_ms");
    };
    for (const char* what : {"mean", "std", "p50", "p90", "p99", "max"}) {
      CHECK(at(what) == doctest::Approx(milliseconds));
      milliseconds += 1;
    }
    CHECK(at("median") == at("p50"));
  }
  const std::pair<const char*, double> expected[] = {{"/completed", 1},
                                                     {"/failed", 2},
                                                     {"/failed_by_code/invalid_json", 2},
                                                     {"/total_input_tokens", 3},
                                                     {"/total_output_tokens", 4},
                                                     {"/preemptions", 6},
                                                     {"/recomputed_tokens", 7},
                                                     {"/duration", 8},
                                                     {"/request_throughput", 0.125},
                                                     {"/input_throughput", 0.375},
                                                     {"/output_throughput", 0.5},
                                                     {"/total_token_throughput", 0.875},
                                                     {"/steps", 10},
                                                     {"/step_tokens", 38},
                                                     {"/prefill_tokens", 39},
                                                     {"/decode_tokens", 40},
                                                     {"/running_peak", 41},
                                                     {"/running_mean", 4.2},
                                                     {"/kv_use_peak", 0.5},
                                                     {"/kv_use_mean", 0.2},
                                                     {"/kv_slot_utilization", 0.8},
                                                     {"/kv_internal_fragmentation", 0.2},
                                                     {"/kv_contiguous_ratio", 4.5},
                                                     {"/kv_positions_total", 46},
                                                     {"/kv_positions_leased_peak", 23},
                                                     {"/kv_contiguous_positions_peak", 48},
                                                     {"/kv_tokens_held_peak", 49},
                                                     {"/kv_bytes_saved_peak", 3000},
                                                     {"/found_tokens", 43},
                                                     {"/kv_bytes_per_position", 1000},
                                                     {"/kv_bytes_per_token", 1250},
                                                     {"/time_load_s", 51},
                                                     {"/time_tokenize_s", 52},
                                                     {"/time_device_s", 53},
                                                     {"/time_host_s", 54},
                                                     {"/time_output_s", 55},
                                                     {"/time_total_s", 56}};
  for (const auto& [key, value] : expected) CHECK(line.number(key) == doctest::Approx(value));
}

TEST_CASE("stats: the summary of nothing is still a line of JSON") {
  std::string out;
  append_summary(out, kRun, {}, {}, {});
  const Line line(out);
  for (const char* key : {"/kv_bytes_per_token", "/mean_ttft_ms", "/max_e2el_ms"}) {
    CHECK(line.at(key).is_null());
  }
  CHECK(line.number("/completed") == 0);
}

TEST_CASE("stats: every line names its run and the time of day of what it tells") {
  StepStats step;
  step.end = 1.25;
  Summary summary;
  summary.times.total = 86400;
  const auto check = [](const std::string& text, const char* time) {
    const Line line(text);
    CHECK(line.text("/run_id") == "a run");
    CHECK(line.text("/time") == time);
  };
  std::string out;
  append_request_line(out, kRun, completed_request());  // finished at 4
  check(out, "2024-11-22T09:41:07.500Z");
  append_step_line(out = "", kRun, step);
  check(out, "2024-11-22T09:41:04.750Z");
  append_summary(out = "", kRun, {}, summary, {});
  check(out, "2024-11-23T09:41:03.500Z");
}

TEST_CASE("stats: a run's id says when it began, and chance tells it from others") {
  CHECK(make_run_stamp(1732268463.25, 0xabc).id == "20241122T094103Z-0000000000000abc");
  CHECK(make_run_stamp(1732268463.25, 0xabc).began == 1732268463.25);
  CHECK(time_of_day(0) == "1970-01-01T00:00:00.000Z");
  CHECK(time_of_day(1709251199.9996) == "2024-03-01T00:00:00.000Z");
  CHECK(time_of_day(951782400) == "2000-02-29T00:00:00.000Z");
}

// So a column of pandas or DuckDB has one type.
TEST_CASE("stats: all requests have the same keys, and all steps, and no value is nested") {
  std::vector<std::string> keys[2];
  for (const bool more : {false, true}) {
    std::string request, step;
    append_request_line(request, kRun,
                        more ? completed_request() : RequestStats{.error_code = "unsupported"});
    append_step_line(step, kRun, {.end = more ? 1.0 : 0.0});
    for (const std::string& text : {request, step}) {
      simdjson::dom::parser parser;
      const simdjson::dom::object line = parser.parse(text);
      for (const auto& [name, value] : line) {
        keys[more].emplace_back(name);
        CAPTURE(name);
        CHECK_FALSE((value.is_object() || value.is_array()));
      }
    }
  }
  CHECK(keys[0] == keys[1]);
}

}  // namespace
}  // namespace pagedinfer
