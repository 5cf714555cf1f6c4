#include <doctest/doctest.h>

#include <sstream>

#include "core/refusal.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

Summary full_summary() {
  Summary s;
  s.completed = 1234567, s.failed = 3;
  s.failed_by_code = {{ErrorCode("invalid_json"), 2}, {ErrorCode("prompt_too_long"), 1}};
  s.input_tokens = 22333444, s.output_tokens = 5566677;
  s.recomputed_tokens = 6543;
  s.duration = 100046.27;
  s.ttft = {.count = 9, .mean = 0.011, .p50 = 0.012, .p90 = 0.013, .p99 = 0.014, .max = 0.015};
  s.tpot = {.count = 9, .mean = 0.021, .p50 = 0.022, .p90 = 0.023, .p99 = 0.024, .max = 0.025};
  s.itl = {.count = 9, .mean = 0.031, .p50 = 0.032, .p90 = 0.033, .p99 = 0.034, .max = 0.035};
  s.e2e = {.count = 9, .mean = 1.1, .p50 = 1.2, .p90 = 61.3, .p99 = 754, .max = 12345};
  s.steps = 4000, s.sum.num_tokens = 210000, s.peak.running = 77, s.sum.preempted = 71;
  s.peak.pool = {.positions_total = 1000, .positions_leased = 873};
  s.sum.pool = {.positions_total = 1000000, .positions_leased = 414000};
  s.sum.cache = {.tokens_held = 395784, .positions_contiguous = 2248020};
  s.times = {.load = 0.41, .tokenize = 0.00042, .output = 0.0987, .total = 15.9};
  s.sum.times = {.plan = 2, .forward = 11.5, .commit = 0.34};
  return s;
}

TEST_CASE("stats: the table shows every number of the run") {
  const std::string table = summary_table("tiny", full_summary());
  for (const char* expected : {"model        tiny\n",
                               "1,234,567 completed",
                               "3 failed",
                               "2 invalid_json",
                               "1 prompt_too_long",
                               "22,333,444 in",
                               "5,566,677 out",
                               "71",
                               "6,543 tokens were computed again",
                               "12.3 requests/s",
                               "223 tokens/s in",
                               "55.6 out",
                               "279 total",
                               "11.0 ms",
                               "12.0 ms",
                               "13.0 ms",
                               "14.0 ms",
                               "15.0 ms",
                               "21.0 ms",
                               "22.0 ms",
                               "23.0 ms",
                               "24.0 ms",
                               "25.0 ms",
                               "31.0 ms",
                               "32.0 ms",
                               "33.0 ms",
                               "34.0 ms",
                               "35.0 ms",
                               "1.10 s",
                               "1.20 s",
                               "61.3 s",
                               "12:34",
                               "3:25:45",
                               "steps        4,000, 52.5 tokens",
                               "77 running",
                               "peak 87.3 %",
                               "mean 41.4 %",
                               "95.6 %",
                               "5.43 times",
                               "15.9 s",
                               "410 ms",
                               "420 us",
                               "11.5 s",
                               "2.34 s",
                               "98.7 ms"}) {
    INFO(expected);
    CHECK(table.find(expected) != std::string::npos);
  }
}

TEST_CASE("stats: the table has no rows of nothing") {
  Summary s;
  s.failed = 2, s.failed_by_code = {{ErrorCode("invalid_json"), 2}}, s.times.total = 1.5;
  const std::string failed = summary_table("tiny", s);
  CHECK(failed.find("2 invalid_json") != std::string::npos);
  CHECK(failed.find("1.50 s") != std::string::npos);
  for (const char* word : {"tokens", "throughput", "TTFT", "ITL", "KV", "steps", "preemptions"}) {
    CAPTURE(word);
    CHECK(failed.find(word) == std::string::npos);
  }

  s = full_summary();
  s.tpot = s.itl = {};  // completions of one token
  s.sum.cache.positions_contiguous = s.sum.preempted = s.recomputed_tokens = 0;
  const std::string table = summary_table("tiny", s);
  CHECK(table.find("TTFT") != std::string::npos);
  for (const char* word : {"TPOT", "ITL", "contiguous", "preemptions", "again"}) {
    CAPTURE(word);
    CHECK(table.find(word) == std::string::npos);
  }
}

TEST_CASE("stats: no line of the table is longer than 80 columns") {
  Summary large = full_summary();
  large.input_tokens = large.output_tokens = 9876543, large.duration = 1;
  for (const Summary& summary : {full_summary(), large, Summary{}}) {
    std::istringstream table(summary_table("tiny", summary));
    for (std::string line; std::getline(table, line);) {
      INFO(line);
      CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("stats: numbers are written for people") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-999) == "-999");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(human_seconds(0) == "0 us");
  CHECK(human_seconds(0.0009999) == "1.00 ms");
  CHECK(human_seconds(0.12345) == "123 ms");
  CHECK(human_seconds(0.99999) == "1.00 s");
  CHECK(human_seconds(99.99) == "1:40");
  CHECK(human_seconds(3599.6) == "1:00:00");
}

}  // namespace
}  // namespace pagedinfer
