#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "stats/progress.h"

namespace pagedinfer {
namespace {

constexpr size_t kWide = 200;

ProgressState some_state() {
  return {.model = "tiny",
          .elapsed = 10,
          .done = 1200,
          .total = 3600,
          .computed_tokens = 60000,
          .output_tokens = 56780,
          .running = 64,
          .kv_use = 0.834};
}

TEST_CASE("stats: the progress line has all its parts") {
  ProgressState state = some_state();
  CHECK(progress_line(state, 20, kWide) ==
        "33 %  1,200/3,600  ETA 0:20  5,678 tok/s  tiny  64 running  KV 83 %");
  state.out_of_order = 1234;
  CHECK(progress_line(state, {}, kWide) ==
        "33 %  1,200/3,600  5,678 tok/s  tiny  64 running  KV 83 %  1,234 out of order");
  state.total = {};
  CHECK(progress_line(state, {}, kWide).starts_with("1,200  5,678 tok/s  tiny  "));
  CHECK(progress_line({}, {}, kWide) == "0  0 tok/s    0 running  KV 0 %");
}

TEST_CASE("stats: the progress line leaves out what does not fit") {
  ProgressState state = some_state();
  const std::string whole = progress_line(state, 20, kWide);
  for (size_t columns = 0; columns <= whole.size(); ++columns) {
    const std::string line = progress_line(state, 20, columns);
    CHECK(line.size() <= columns);
    CHECK(line.find("33 %  1,200/3,600") == (columns >= 17 ? 0 : line.npos));
    for (const char* part : {"ETA 0:20", "5,678 tok/s", "tiny", "64 running", "KV 83 %"}) {
      const size_t end = whole.find(part) + std::string_view(part).size();
      if (columns >= end) CHECK(line.find(part) != line.npos);
    }
  }
  // The largest numbers that are likely leave the room for the model.
  state.done = state.total.emplace(1000000), state.output_tokens = 400000000, state.elapsed = 9999;
  CHECK(progress_line(state, 360000, 80).find("tiny") != std::string::npos);
}

TEST_CASE("stats: the progress line counts what an earlier run has done") {
  ProgressState state = some_state();
  state.resumed = 9600;
  CHECK(progress_line(state, {}, kWide).starts_with("81 %  10,800/13,200  5,678 tok/s"));
}

TEST_CASE("stats: a total that is an estimate is told as one, to two digits") {
  ProgressState state = {.elapsed = 10, .done = 1000, .total = 12345, .total_is_estimate = true};
  CHECK(progress_line(state, {}, kWide).starts_with("8 %  1,000/~12,000  "));
  const std::pair<int64_t, const char*> totals[] = {
      {7, "7"}, {99, "99"}, {100, "100"}, {104, "100"}, {996, "1,000"}, {12500, "13,000"}};
  state.done = 0;
  for (const auto& [total, told] : totals) {
    state.total = total;
    CHECK(progress_line(state, {}, kWide).starts_with(std::string("0 %  0/~") + told + "  "));
  }
  state.done = 12521, state.total = 12523;  // not fewer than are done
  CHECK(progress_line(state, {}, kWide).starts_with("96 %  12,521/~13,000  "));
  state.done = 12400, state.total = 12404;
  CHECK(progress_line(state, {}, kWide).starts_with("100 %  12,400/~12,400  "));
}

TEST_CASE("stats: a run that waits for a line says when it arrives, and no remaining time") {
  ProgressState state = some_state();
  for (const auto& [seconds, told] :
       {std::pair(0.1, "0:01"), {61.0, "1:01"}, {604800, "168:00:00"}}) {
    state.next_arrival = seconds;
    CHECK(progress_line(state, 20, kWide) == std::string("33 %  1,200/3,600  next line in ") +
                                                 told + "  5,678 tok/s  tiny  64 running  KV 83 %");
  }
}

// The tokens of a request's prompt and output.
using Lengths = std::pair<int, int>;

Lengths even_lengths(std::mt19937& random) {
  return {std::uniform_int_distribution(5, 80)(random),
          std::uniform_int_distribution(20, 400)(random)};
}

// As of answers and stories in one file: most outputs are short, and most tokens are in long ones.
Lengths mixed_lengths(std::mt19937& random) {
  const int output = random() % 3 > 0 ? std::uniform_int_distribution(1, 12)(random)
                                      : std::uniform_int_distribution(64, 200)(random);
  return {std::uniform_int_distribution(20, 80)(random), output};
}

// A run of `total` requests, `width` at a time, that computes 20,000 tokens a second, but a quarter
// at first. Returns the largest relative error of the time left between two shares of the run.
double largest_error(int64_t total, size_t width, Lengths (*lengths)(std::mt19937&), double begin,
                     double end, std::mt19937& random) {
  struct Running {
    int output = 0, drawn = 0;
  };
  constexpr double kSpeed = 20000, kWarmUp = 0.2;  // tokens a second; seconds
  int64_t begun = 0;
  std::vector<Running> running;
  ProgressState state = {.total = total};
  std::vector<std::pair<double, std::optional<double>>> told;
  TimeLeft time_left;
  for (int step = 0; state.done < total; ++step) {
    int64_t tokens = 0;
    for (Running& request : running) {
      ++tokens, ++state.decoded_tokens;
      if (++request.drawn < request.output) continue;
      ++state.done, ++state.done_by_drawn[request.output];
    }
    std::erase_if(running, [](const Running& request) { return request.drawn == request.output; });
    for (; running.size() < width && begun < total; ++begun) {
      const auto [prompt, output] = lengths(random);
      running.push_back({.output = output});
      tokens += prompt;
    }
    state.drawn.clear();
    for (const Running& request : running) state.drawn.push_back(request.drawn);
    state.computed_tokens += tokens;
    state.elapsed += static_cast<double>(tokens) / (state.elapsed < kWarmUp ? kSpeed / 4 : kSpeed);
    if (step % 10 == 0) told.emplace_back(state.elapsed, time_left.seconds(state));
  }
  double largest = 0;
  for (const auto& [elapsed, seconds] : told) {
    if (elapsed < begin * state.elapsed || elapsed > end * state.elapsed) continue;
    REQUIRE(seconds.has_value());
    const double truth = state.elapsed - elapsed;
    largest = std::max(largest, std::abs(*seconds - truth) / truth);
  }
  return largest;
}

TEST_CASE("stats: the time left is within a quarter from a tenth of the run on") {
  std::mt19937 random(1);
  for (const auto& [total, width] : {std::pair(10800, 256), {2000, 64}, {1000, 1}}) {
    CAPTURE(total);
    CHECK(largest_error(total, static_cast<size_t>(width), even_lengths, 0.1, 0.95, random) < 0.25);
  }
}

// Nothing tells of long requests before the first one ends.
TEST_CASE("stats: the time left counts the long requests, which end last") {
  std::mt19937 random(2);
  CHECK(largest_error(10800, 256, mixed_lengths, 0.2, 0.95, random) < 0.15);
  CHECK(largest_error(3600, 256, mixed_lengths, 0.35, 0.95, random) < 0.15);
  CHECK(largest_error(3600, 256, even_lengths, 0.2, 0.95, random) < 0.15);
}

TEST_CASE("stats: nothing is told of the time left before a request is done") {
  TimeLeft time_left;
  CHECK(!time_left.seconds({.elapsed = 1, .total = 7, .computed_tokens = 5}));
  CHECK(!time_left.seconds({.elapsed = 2, .done = 1, .computed_tokens = 9}));
}

TEST_CASE("stats: a terminal's line is never wider than the terminal") {
  std::string written;
  size_t columns = 40;
  Progress progress(
      true, [&](std::string_view text) { written = text; }, [&] { return columns; });
  progress.show(0, some_state());
  const std::string wide = progress_line(some_state(), 20, 39);
  CHECK(written == "\r" + wide);
  columns = 20;
  progress.show(1, some_state());
  const std::string narrow = progress_line(some_state(), 20, 19);
  CHECK(written == "\r" + narrow + std::string(wide.size() - narrow.size(), ' '));
}

TEST_CASE("stats: a terminal's line is redrawn at most ten times a second") {
  std::vector<std::string> written;
  Progress progress(true, [&](std::string_view text) { written.emplace_back(text); });
  for (int step = 0; step < 1000; ++step) progress.show(100 + 0.002 * step, some_state());
  CHECK(written.size() >= 19);
  CHECK(written.size() <= 20);
  for (const std::string& text : written) {
    CHECK(text.front() == '\r');
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("stats: a shorter line covers the longer one before it") {
  std::string screen;
  const auto draw = [&](std::string_view text) {
    size_t column = 0;
    for (const char c : text) {
      if (c == '\r') {
        column = 0;
        continue;
      }
      if (column == screen.size()) screen.push_back(' ');
      screen[column++] = c;
    }
  };
  Progress progress(true, draw);
  progress.show(0, some_state());
  progress.show(1, {});
  const std::string shorter = progress_line({}, {}, 79);
  CHECK(screen.substr(0, shorter.size()) == shorter);
  CHECK(screen.find_first_not_of(' ', shorter.size()) == std::string::npos);
  progress.clear();
  CHECK(screen.find_first_not_of(' ') == std::string::npos);
}

TEST_CASE("stats: without a terminal plain lines come ever more rarely") {
  std::vector<double> times;
  Progress progress(false, [&](std::string_view text) {
    CHECK(text.ends_with("\n"));
    CHECK(text.find('\r') == std::string::npos);
    CHECK(text.size() <= 81);
    times.push_back(0);
  });
  for (double now = 0; now <= 36000; now += 0.5) {
    progress.show(now, some_state());
    if (!times.empty() && times.back() == 0) times.back() = now;
  }
  REQUIRE(times.size() > 30);
  CHECK(times.size() < 200);  // 7,200 at one each five seconds
  for (size_t i = 0; i < 20; ++i) CHECK(times[i] == 5.0 * static_cast<double>(i + 1));
  for (size_t i = 20; i + 1 < times.size(); ++i) {
    const double interval = times[i + 1] - times[i];
    CHECK(interval >= std::min(times[i] / 20, 600.0));
    CHECK(interval <= std::min(times[i] / 20, 600.0) + 0.5);
  }
  progress.clear();
}

}  // namespace
}  // namespace pagedinfer
