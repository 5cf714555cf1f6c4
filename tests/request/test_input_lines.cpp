#include <doctest/doctest.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "request/input_lines.h"
#include "tests/support/gzip.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

struct Taken {
  std::string text;
  int64_t index, turn, number;
};

std::vector<Taken> take(const std::string& path, const LineChoice& choice) {
  InputLines lines(path, choice);
  std::vector<Taken> taken;
  while (const auto line = lines.next()) {
    if (line->taken) {
      taken.push_back({std::string(line->text), line->index, line->turn, line->number});
    }
  }
  return taken;
}

std::string random_lines(std::mt19937& random) {
  std::string text;
  for (auto left = random() % 60; left > 0; --left) {
    text += random() % 3 == 0 ? " " : std::to_string(random());
    text += random() % 5 == 0 ? "\r\n" : "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("shards share the lines of a file, and call them what the whole run does") {
  const TempDir dir;
  const std::string path = dir / "in";
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    write_file(path, random_lines(random));
    LineChoice choice;
    if (round % 2 == 0) choice.limit = 1 + static_cast<int64_t>(random() % 40);
    const std::vector<Taken> whole = take(path, choice);
    if (choice.limit) CHECK(whole.size() == std::min(take(path, {}).size(), size_t(*choice.limit)));
    std::map<int64_t, Taken> shared;  // by index
    choice.shard.count = 1 + static_cast<int64_t>(random() % 9);
    for (choice.shard.index = 0; choice.shard.index < choice.shard.count; ++choice.shard.index) {
      int64_t turn = 0, last = -1;
      for (const Taken& line : take(path, choice)) {
        CHECK(line.turn == turn++);
        CHECK(line.index > last);
        CHECK((line.number - 1) % choice.shard.count == choice.shard.index);
        CHECK(shared.emplace(line.index, line).second);
        last = line.index;
      }
    }
    REQUIRE(shared.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      CHECK(whole[i].index == static_cast<int64_t>(i));
      CHECK(whole[i].turn == static_cast<int64_t>(i));
      const Taken& line = shared.at(whole[i].index);
      CHECK(line.text == whole[i].text);
      CHECK(line.number == whole[i].number);
    }
  }
}

TEST_CASE("the lines of a file are estimated from its first one on") {
  const TempDir dir;
  std::mt19937 random(7);
  std::string even, uneven;
  for (int i = 0; i < 20000; ++i) {
    even += "{\"prompt\": \"" + std::to_string(100000 + random() % 900000) + "\"}\n";
    uneven += std::string(1 + random() % 100, static_cast<char>('a' + random() % 26)) + "\n";
  }
  write_file(dir / "even", even);
  write_file(dir / "uneven", uneven);
  write_file(dir / "packed", gzip(even));
  struct Case {
    const char* name;
    LineChoice choice;
    double expected, tolerance;
  };
  const Case cases[] = {
      {"even", {}, 20000, 1e-9},
      {"even", {.limit = 500}, 500, 1e-9},
      {"even", {.shard = {.index = 1, .count = 4}}, 5000, 1e-3},
      {"even", {.limit = 2000, .shard = {.index = 0, .count = 4}}, 500, 1e-2},
      {"even", {.limit = 50000}, 20000, 1e-9},
      {"uneven", {}, 20000, 0.3},  // from the 100th line on
      {"packed", {}, 20000, 0.1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    InputLines lines(dir / c.name, c.choice);
    CHECK(!lines.estimate());
    int64_t num_taken = 0;
    for (int i = 0; const auto line = lines.next(); ++i) {
      num_taken += line->taken;
      REQUIRE(lines.estimate());
      if (i < 100 && std::string(c.name) == "uneven") continue;
      if (*lines.estimate() != doctest::Approx(c.expected).epsilon(c.tolerance)) {
        FAIL_CHECK("line " << i << ": " << *lines.estimate());
        break;
      }
    }
    CHECK(num_taken == static_cast<int64_t>(c.expected));
    CHECK(*lines.estimate() == doctest::Approx(c.expected).epsilon(1e-3));
  }
}

TEST_CASE("the lines of a pipe are not estimated") {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  REQUIRE(write(fds[1], "a\nb\n", 4) == 4);
  close(fds[1]);
  InputLines lines("/proc/self/fd/" + std::to_string(fds[0]), {});
  while (lines.next()) CHECK(!lines.estimate());
  CHECK(!lines.estimate());
  close(fds[0]);
}
