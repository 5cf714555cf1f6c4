#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/hash.h"
#include "workload/workload.h"

namespace pagedinfer {
namespace {

std::vector<TokenId> ordinary_ids() {
  std::vector<TokenId> ids(1000);
  std::iota(ids.begin(), ids.end(), 3);
  return ids;
}

WorkloadShape shape_of(std::string_view name, int requests = 0) {
  WorkloadShape shape = *find_workload(name);
  if (requests > 0) shape.requests = requests;
  return shape;
}

std::string lines_of(const BenchWorkload& workload, double rate) {
  const std::vector<TokenId> ordinary = ordinary_ids();
  std::string lines;
  for (int i = 0; i < workload.shape.requests; ++i) {
    append_workload_line(lines, workload, i, rate, ordinary);
  }
  return lines;
}

// By how much the share of `draws` up to a value differs from the one expected, at most.
double distance_of(std::vector<double> draws, const std::function<double(double)>& expected) {
  std::ranges::sort(draws);
  const auto count = static_cast<double>(draws.size());
  double distance = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double at = expected(draws[i]);
    distance = std::max({distance, std::abs(at - static_cast<double>(i) / count),
                         std::abs(at - static_cast<double>(i + 1) / count)});
  }
  return distance;
}

}  // namespace

TEST_CASE("the same seed gives the same workload, byte for byte, on every machine") {
  uint64_t hash = 0;
  for (const WorkloadShape& shape : kWorkloads) {
    if (shape.from_trace) continue;
    hash = hash_bytes(hash, lines_of(make_workload(shape, 7, 4096), shape.rate));
  }
  CHECK(hash == 10079725567978454070u);
}

TEST_CASE("another seed gives other lengths, tokens and arrivals") {
  const WorkloadShape shape = shape_of("continuous_batching");
  const BenchWorkload a = make_workload(shape, 1, 4096), b = make_workload(shape, 2, 4096);
  int num_equal = 0;
  for (size_t i = 0; i < a.requests.size(); ++i) {
    num_equal += a.requests[i].prompt_tokens == b.requests[i].prompt_tokens;
    if (i > 0) CHECK(a.requests[i].arrival != b.requests[i].arrival);
    CHECK(prompt_of(a, static_cast<int>(i), ordinary_ids()) !=
          prompt_of(b, static_cast<int>(i), ordinary_ids()));
  }
  CHECK(num_equal < 4);
}

TEST_CASE("a workload of more requests begins with those of a smaller one") {
  for (const std::string_view name : {"random", "chunked_prefill", "prefix_caching"}) {
    const std::string few = lines_of(make_workload(shape_of(name, 20), 3, 4096), 2);
    CHECK(lines_of(make_workload(shape_of(name, 50), 3, 4096), 2).starts_with(few));
  }
}

TEST_CASE("lengths are even over their range, both ends included") {
  WorkloadShape shape = shape_of("random", 20000);
  shape.prompt = {5, 24};
  shape.output = {7, 7};
  std::vector<int> counts(25);
  for (const WorkloadRequest& request : make_workload(shape, 11, 4096).requests) {
    REQUIRE(request.prompt_tokens >= 5);
    REQUIRE(request.prompt_tokens <= 24);
    CHECK(request.output_tokens == 7);
    ++counts[static_cast<size_t>(request.prompt_tokens)];
  }
  double chi_square = 0;  // of 20 counts; above 43.8 once in a thousand seeds
  for (size_t i = 5; i <= 24; ++i) chi_square += std::pow(counts[i] - 1000.0, 2) / 1000;
  CHECK(chi_square < 43.8);
}

TEST_CASE("gaps between arrivals are exponential with a mean of one, and the first is at 0") {
  const BenchWorkload workload = make_workload(shape_of("continuous_batching", 20001), 5, 4096);
  std::vector<double> gaps;
  CHECK(workload.requests.front().arrival == 0);
  for (size_t i = 1; i < workload.requests.size(); ++i) {
    gaps.push_back(workload.requests[i].arrival - workload.requests[i - 1].arrival);
    REQUIRE(gaps.back() >= 0);
  }
  // Kolmogorov and Smirnov: above 1.95 / sqrt(n) once in a thousand seeds.
  CHECK(distance_of(gaps, [](double gap) { return 1 - std::exp(-gap); }) < 1.95 / std::sqrt(2e4));
  CHECK(workload.requests.back().arrival == doctest::Approx(20000).epsilon(0.03));
}

TEST_CASE("arrivals of a line are those at one request a second over the rate") {
  const BenchWorkload workload = make_workload(shape_of("continuous_batching", 3), 5, 4096);
  const double arrival = workload.requests[2].arrival;
  for (const double rate : {0.5, 4.0}) {
    const std::string lines = lines_of(workload, rate);
    const size_t at = lines.rfind("\"arrival_s\":");
    CHECK(std::stod(lines.substr(at + 12)) == doctest::Approx(arrival / rate).epsilon(1e-5));
  }
  CHECK(lines_of(workload, 0).find("arrival_s") == std::string::npos);
}

TEST_CASE("prompts have ordinary tokens only, each as likely as another") {
  WorkloadShape shape = shape_of("random", 50);
  shape.prompt = {2000, 2000};
  const BenchWorkload workload = make_workload(shape, 13, 4096);
  const std::vector<TokenId> ordinary = {5, 17, 18, 200, 999};
  std::vector<int> counts(1000);
  for (int i = 0; i < 50; ++i) {
    for (const TokenId token : prompt_of(workload, i, ordinary)) ++counts[size_t(token)];
  }
  double chi_square = 0;  // of 5 counts; above 18.5 once in a thousand seeds
  int num_ordinary = 0;
  for (const TokenId token : ordinary) {
    chi_square += std::pow(counts[size_t(token)] - 2e4, 2) / 2e4;
    num_ordinary += counts[size_t(token)];
  }
  CHECK(num_ordinary == 100000);
  CHECK(chi_square < 18.5);
}

TEST_CASE("prompts share as many beginnings as there are heads, and nothing behind them") {
  for (const int heads : {1, 5}) {
    WorkloadShape shape = shape_of("prefix_caching", 200);
    shape.heads = heads;
    const BenchWorkload workload = make_workload(shape, 17, 4096);
    std::set<std::vector<TokenId>> beginnings, ends;
    for (int i = 0; i < 200; ++i) {
      const std::vector<TokenId> prompt = prompt_of(workload, i, ordinary_ids());
      REQUIRE(prompt.size() >= 512 + 16);
      REQUIRE(prompt.size() <= 512 + 64);
      beginnings.insert({prompt.begin(), prompt.begin() + 512});
      ends.insert({prompt.begin() + 512, prompt.end()});
    }
    CHECK(beginnings.size() == static_cast<size_t>(heads));
    CHECK(ends.size() == 200);
  }
}

TEST_CASE("of every four requests one has a long prompt, at a random place") {
  const BenchWorkload workload = make_workload(shape_of("chunked_prefill", 400), 19, 4096);
  std::set<int> places;
  for (int group = 0; group < 100; ++group) {
    int num_long = 0;
    for (int i = 0; i < 4; ++i) {
      const WorkloadRequest& request = workload.requests[size_t(4 * group + i)];
      if (request.prompt_tokens != 2048) {
        CHECK(request.prompt_tokens <= 64);
        CHECK(request.output_tokens >= 128);
        continue;
      }
      CHECK(request.output_tokens <= 32);
      ++num_long;
      places.insert(i);
    }
    CHECK(num_long == 1);
  }
  CHECK(places.size() == 4);
}

TEST_CASE("what does not fit the model's length is clipped and counted") {
  WorkloadShape shape = shape_of("random", 100);
  shape.prompt = {90, 110};
  shape.output = {10, 10};
  const BenchWorkload workload = make_workload(shape, 23, 110);
  int num_long = 0;
  const BenchWorkload whole = make_workload(shape, 23, 4096);
  for (size_t i = 0; i < 100; ++i) {
    const int wanted = whole.requests[i].prompt_tokens;
    num_long += wanted > 100;
    CHECK(workload.requests[i].prompt_tokens == std::min(wanted, 100));
  }
  CHECK(num_long > 20);
  CHECK(workload.num_clipped == num_long);
  shape.output = {500, 500};
  shape.prompt = {1, 1};
  const BenchWorkload short_outputs = make_workload(shape, 23, 110);
  for (const WorkloadRequest& request : short_outputs.requests) {
    CHECK(request.prompt_tokens == 1);
    CHECK(request.output_tokens == 109);
  }
  CHECK(short_outputs.num_clipped == 100);
}

TEST_CASE("a trace gives lengths, arrivals and their rate") {
  WorkloadShape shape = shape_of("trace", 3);
  const std::vector<TraceRow> rows = {{0, 10, 1}, {1, 20, 2}, {8, 5000, 3}, {9, 40, 4}};
  const BenchWorkload workload = make_workload(shape, 0, 4096, rows);
  CHECK(workload.shape.rate == 0.25);
  CHECK(workload.num_clipped == 1);
  const std::vector<int> prompts = {10, 20, 4093};
  const std::vector<double> arrivals = {0, 1, 8};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(workload.requests[i].prompt_tokens == prompts[i]);
    CHECK(workload.requests[i].output_tokens == rows[i].output_tokens);
    CHECK(workload.requests[i].arrival / workload.shape.rate == doctest::Approx(arrivals[i]));
  }
  shape.rate = 2;
  CHECK(make_workload(shape, 0, 4096, rows).shape.rate == 2);
  const std::vector<TraceRow> at_once = {{0, 10, 1}, {0, 20, 2}, {0, 30, 3}};
  CHECK(make_workload(shape_of("trace", 3), 0, 4096, at_once).shape.rate == 0);
}

}  // namespace pagedinfer
