#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "stats/comparison.h"

namespace pagedinfer {
namespace {

Summary summary_of(double duration) {
  Summary s;
  s.duration = duration;
  s.completed = 10, s.output_tokens = 1000;
  s.ttft = {.count = 10, .p50 = 0.1 * duration, .p99 = 0.2 * duration};
  s.e2e = {.count = 10, .p50 = 0.5 * duration, .p99 = duration};
  s.steps = 2, s.sum.running = 15, s.peak.running = 12, s.sum.preempted = 3;
  s.peak.pool = {.positions_total = 2, .positions_leased = 1};
  return s;
}

ComparedRuns runs_of(const std::string& flags, const std::vector<double>& durations) {
  ComparedRuns runs = {.flags = flags};
  for (const double duration : durations) runs.runs.push_back(summary_of(duration));
  return runs;
}

}  // namespace

TEST_CASE("the ratio of pairs is that of each round, with Student's interval of the logarithms") {
  // Rounds differ by more than the configurations do.
  const auto ratio = paired_ratio(std::vector{2.0, 30.0, 0.8}, std::vector{1.0, 10.0, 0.2});
  REQUIRE(ratio);
  CHECK(ratio->median == doctest::Approx(3));
  CHECK(ratio->mean == doctest::Approx(std::cbrt(24.0)));
  // scipy.stats.ttest_1samp(log([2, 3, 4]), 0).confidence_interval()
  CHECK(std::log(*ratio->low) == doctest::Approx(0.1941).epsilon(1e-3));
  CHECK(std::log(*ratio->high) == doctest::Approx(1.9246).epsilon(1e-3));
}

TEST_CASE("one pair has no interval, and a number that is not positive no ratio") {
  const auto ratio = paired_ratio(std::vector{2.0}, std::vector{4.0});
  REQUIRE(ratio);
  CHECK(ratio->median == 0.5);
  CHECK(ratio->mean == 0.5);
  CHECK(!ratio->low);
  CHECK(!ratio->high);
  CHECK(!paired_ratio(std::vector{2.0, 0.0}, std::vector{4.0, 1.0}));
  CHECK(!paired_ratio(std::vector{2.0, 1.0}, std::vector{4.0, 0.0}));
}

TEST_CASE("Student's t is that of the tables, and goes on where the table ends") {
  CHECK(student_t(1) == 12.706);
  CHECK(student_t(6) == 2.447);
  CHECK(student_t(30) == 2.042);
  CHECK(student_t(31) == doctest::Approx(2.0395).epsilon(0.002));
  CHECK(student_t(60) == doctest::Approx(2.0003).epsilon(0.001));
  CHECK(student_t(999) == doctest::Approx(1.9623).epsilon(0.0005));
}

TEST_CASE("the interval covers the true ratio in about 95 of 100 comparisons") {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.2);
  int num_covered = 0;
  constexpr int kTimes = 2000;
  for (int i = 0; i < kTimes; ++i) {
    std::vector<double> of, to;
    for (int pair = 0; pair < 5; ++pair) {
      to.push_back(1 + pair);
      of.push_back(1.5 * (1 + pair) * std::exp(noise(random)));
    }
    const auto ratio = paired_ratio(of, to);
    num_covered += *ratio->low < 1.5 && 1.5 < *ratio->high;
  }
  CHECK(num_covered > 0.935 * kTimes);
  CHECK(num_covered < 0.965 * kTimes);
}

TEST_CASE("the median run is the one in the middle, of an even number the faster one there") {
  CHECK(median_run(runs_of("", {3, 1, 2})) == 2);
  CHECK(median_run(runs_of("", {3, 1, 2, 4})) == 2);
  CHECK(median_run(runs_of("", {3})) == 0);
  CHECK(median_of(std::vector{3.0, 1.0, 2.0}) == 2);
  CHECK(median_of(std::vector{3.0, 1.0, 2.0, 10.0}) == 2.5);
}

TEST_CASE("configurations stand side by side, and each has its ratios to the first") {
  const std::vector<ComparedRuns> all = {runs_of("--kv contiguous", {2, 4, 8}),
                                         runs_of("", {1, 2, 4}),
                                         runs_of("--block-size 8", {4, 8, 16})};
  const std::vector<RatioToFirst> ratios = ratios_to_first(all);
  REQUIRE(ratios.size() == 14);  // no gaps between tokens, so no ratio of them
  for (const RatioToFirst& ratio : ratios) {
    const bool is_rate = ratio.figure.ends_with("throughput");
    const double expected = (ratio.of == 1) == is_rate ? 2 : 0.5;
    CHECK(ratio.ratio.median == doctest::Approx(expected));
    CHECK(*ratio.ratio.low == doctest::Approx(expected));
  }
  const std::string table = comparison_table(all);
  for (const char* row : {"1            --kv contiguous\n", "2            no flags\n",
                          "medians of 3            1           2           3\n",
                          "duration           4.00 s      2.00 s      8.00 s\n",
                          "requests/s           2.50        5.00        1.25\n",
                          "running peak           12          12          12\n",
                          "cache peak         50.0 %      50.0 %      50.0 %\n",
                          "2 over 1           median        mean  95 % interval\n",
                          "duration            2.000       2.000  2.000 to 2.000\n"}) {
    CHECK_MESSAGE(table.find(row) != std::string::npos, row, table);
  }
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

}  // namespace pagedinfer
