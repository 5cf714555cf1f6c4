#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "stats/progress.h"

namespace pagedinfer {
namespace {

ProgressState some_state() {
  return {.elapsed = 10,
          .done = 1200,
          .total = 3600,
          .output_tokens = 56780,
          .running = 64,
          .waiting = 2048,
          .kv_use = 0.834};
}

TEST_CASE("stats: the progress line has all its parts") {
  ProgressState state = some_state();
  CHECK(progress_line(state) ==
        "1,200/3,600 done, ETA 0:20, 5,678 tokens/s, 64 running, 2,048 waiting, KV 83 %");
  state.total = {};
  CHECK(progress_line(state) == "1,200 done, 5,678 tokens/s, 64 running, 2,048 waiting, KV 83 %");
}

TEST_CASE("stats: a total that is an estimate is told as one, to two digits") {
  ProgressState state = {.elapsed = 10, .done = 1000, .total = 12345, .total_is_estimate = true};
  CHECK(progress_line(state).starts_with("1,000 of about 12,000 done, ETA 1:53, "));
  const std::pair<int64_t, const char*> totals[] = {
      {7, "7"}, {99, "99"}, {100, "100"}, {104, "100"}, {996, "1,000"}, {12500, "13,000"}};
  state.done = 0;
  for (const auto& [total, told] : totals) {
    state.total = total;
    CHECK(progress_line(state).starts_with(std::string("0 of about ") + told + " done, "));
  }
  state.done = 12521, state.total = 12523;  // not fewer than are done
  CHECK(progress_line(state).starts_with("12,521 of about 13,000 done, "));
  state.done = 12400, state.total = 12404;
  CHECK(progress_line(state).starts_with("12,400 of about 12,400 done, "));
}

TEST_CASE("stats: the progress line says how many records wait for earlier lines") {
  ProgressState state = some_state();
  state.out_of_order = 1234;
  CHECK(progress_line(state).starts_with(
      "1,200/3,600 done, ETA 0:20, 1,234 done out of order, 5,678 tokens/s, "));
}

TEST_CASE("stats: a run that waits for a line says when it arrives, and no remaining time") {
  ProgressState state = some_state();
  for (const auto& [seconds, told] :
       {std::pair(0.1, "0:01"), {61.0, "1:01"}, {604800, "168:00:00"}}) {
    state.next_arrival = seconds;
    CHECK(progress_line(state) == std::string("1,200/3,600 done, next line arrives in ") + told +
                                      ", 5,678 tokens/s, 64 running, 2,048 waiting, KV 83 %");
  }
}

TEST_CASE("stats: a terminal's line is never wider than the terminal") {
  std::string written;
  size_t columns = 40;
  Progress progress(
      true, [&](std::string_view text) { written = text; }, [&] { return columns; });
  progress.show(0, some_state());
  CHECK(written == "\r" + progress_line(some_state()).substr(0, 39));
  columns = 20;
  progress.show(1, some_state());
  CHECK(written == "\r" + progress_line(some_state()).substr(0, 19) + std::string(20, ' '));
}

TEST_CASE("stats: the progress line needs nothing to be done") {
  CHECK(progress_line({}) == "0 done, 0 tokens/s, 0 running, 0 waiting, KV 0 %");
  CHECK(progress_line({.elapsed = 1, .total = 7}) ==
        "0/7 done, 0 tokens/s, 0 running, 0 waiting, KV 0 %");
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
  CHECK(screen.substr(0, progress_line({}).size()) == progress_line({}));
  CHECK(screen.find_first_not_of(' ', progress_line({}).size()) == std::string::npos);
  progress.clear();
  CHECK(screen.find_first_not_of(' ') == std::string::npos);
}

TEST_CASE("stats: without a terminal a plain line comes every five seconds") {
  std::vector<std::string> written;
  Progress progress(false, [&](std::string_view text) { written.emplace_back(text); });
  for (int step = 0; step <= 1600; ++step) progress.show(0.01 * step, some_state());
  REQUIRE(written.size() == 3);
  for (const std::string& text : written) CHECK(text == progress_line(some_state()) + "\n");
  progress.clear();
  CHECK(written.size() == 3);
}

}  // namespace
}  // namespace pagedinfer
