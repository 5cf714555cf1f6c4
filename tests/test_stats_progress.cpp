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
        "1,200/3,600 done, 5,678 tokens/s, 64 running, 2,048 waiting, KV 83 %, ETA 0:20");
  state.total = {};
  CHECK(progress_line(state) == "1,200 done, 5,678 tokens/s, 64 running, 2,048 waiting, KV 83 %");
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
