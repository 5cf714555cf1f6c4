// The gate that items pass when their lines arrive, with a clock and a sleep of the test.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "intake/arrivals.h"
#include "io/interrupt.h"

using namespace pagedinfer;

namespace {

struct Line {
  std::optional<double> arrival;  // in the file
  double read;                    // on the clock
};

// Lines that are read at their times, and a clock that goes on where the gate waits.
struct Scene {
  explicit Scene(std::vector<Line> file, bool skips_to_first = false)
      : lines(file.begin(), file.end()),
        gate({.pull = [this](bool wait, IntakeItem& item) { return pull(wait, item); },
              .clock = [this] { return now; },
              .sleep =
                  [this](double seconds) {
                    slept += seconds;
                    now += is_interrupted ? 0.25 * seconds : seconds;
                  },
              .before_wait = [this] { ++num_waits; },
              .skips_to_first = skips_to_first}) {}

  Pull pull(bool wait, IntakeItem& item) {
    if (lines.empty()) return Pull::kEnded;
    const Line line = lines.front();
    if (line.read > now) {
      if (!wait) return Pull::kLater;
      now = line.read;
    }
    lines.pop_front();
    item = PreparedLine{
        .head = {.index = num_pulled++, .arrived = line.read, .arrival = line.arrival}};
    return Pull::kItem;
  }

  // Asks for an item; its head is in `head` then.
  Pull next(Wait wait) {
    IntakeItem item;
    const Pull pulled = gate.next(wait, item);
    if (pulled == Pull::kItem) head = std::get<PreparedLine>(item).head;
    return pulled;
  }

  std::deque<Line> lines;
  double now = 10;  // the model was loaded by then
  double slept = 0;
  int num_waits = 0;
  bool is_interrupted = false;
  int64_t num_pulled = 0;
  RecordHead head = {};
  ArrivalGate gate;
};

}  // namespace

TEST_CASE("an item is held until its line arrives") {
  Scene scene({{0.0, 1}, {0.5, 1}, {0.5, 1}, {2.0, 1}});
  CHECK(scene.next(Wait::kNo) == Pull::kItem);
  CHECK(scene.head.arrived == 10);
  CHECK(scene.head.arrival == 0.0);
  scene.now = 10.499;
  CHECK(scene.next(Wait::kNo) == Pull::kNotArrived);
  CHECK(scene.next(Wait::kForLine) == Pull::kNotArrived);
  CHECK(scene.now == 10.499);
  scene.now = 10.5;
  CHECK(scene.next(Wait::kNo) == Pull::kItem);
  CHECK(scene.head.index == 1);
  CHECK(scene.next(Wait::kForLine) == Pull::kItem);
  CHECK(scene.num_waits == 0);
  CHECK(scene.next(Wait::kForArrival) == Pull::kItem);
  CHECK(scene.num_waits == 1);
  CHECK(scene.slept == 1.5);
  CHECK(scene.now == 12);
  CHECK(scene.head.arrived == 12);
  CHECK(scene.next(Wait::kForArrival) == Pull::kEnded);
}

TEST_CASE("a line that is read after its arrival counts from its arrival") {
  Scene scene({{1.0, 3}, {2.0, 15}, {{}, 16}});
  scene.now = 14;
  CHECK(scene.next(Wait::kNo) == Pull::kNotArrived);  // the clock of arrivals begins here
  scene.now = 20;
  for (const double arrived : {15.0, 16.0, 16.0}) {
    CHECK(scene.next(Wait::kNo) == Pull::kItem);
    CHECK(scene.head.arrived == arrived);
  }
}

TEST_CASE("a line that is not read yet is told apart from one that has not arrived") {
  Scene scene({{3.0, 12}});
  CHECK(scene.next(Wait::kNo) == Pull::kLater);
  CHECK(scene.num_waits == 0);
  CHECK(scene.next(Wait::kForLine) == Pull::kNotArrived);
  CHECK(scene.num_waits == 1);
  CHECK(scene.now == 12);
  CHECK(scene.next(Wait::kForArrival) == Pull::kItem);
  CHECK(scene.head.arrived == 13);
}

TEST_CASE("a wait for an arrival that ends early gives no item") {
  Scene scene({{8.0, 1}});
  scene.is_interrupted = true;
  CHECK(scene.next(Wait::kForArrival) == Pull::kNotArrived);
  CHECK(scene.now == 12);
  scene.is_interrupted = false;
  CHECK(scene.next(Wait::kForArrival) == Pull::kItem);
  CHECK(scene.now == 18);
}

TEST_CASE("a resumed run's clock of arrivals begins with its first line") {
  Scene scene({{100.0, 1}, {101.5, 1}}, true);
  CHECK(scene.next(Wait::kNo) == Pull::kItem);
  CHECK(scene.head.arrived == 10);
  CHECK(scene.next(Wait::kForArrival) == Pull::kItem);
  CHECK(scene.head.arrived == 11.5);
  CHECK(scene.now == 11.5);

  // Of lines without a time too, which come before the others.
  Scene mixed({{{}, 1}, {2.0, 1}}, true);
  CHECK(mixed.next(Wait::kNo) == Pull::kItem);
  CHECK(mixed.next(Wait::kForArrival) == Pull::kItem);
  CHECK(mixed.now == 12);
}

TEST_CASE("lines without times pass as they are read, and error records wait as others do") {
  Scene scene({{{}, 1}, {{}, 11}});
  CHECK(scene.next(Wait::kForArrival) == Pull::kItem);
  CHECK(scene.head.arrived == 1);
  CHECK(scene.next(Wait::kNo) == Pull::kLater);
  CHECK(scene.next(Wait::kForArrival) == Pull::kItem);
  CHECK(scene.slept == 0);

  double now = 0;
  ArrivalGate gate({.pull =
                        [](bool, IntakeItem& item) {
                          item = Completion{.head = {.arrival = 1.0}};
                          return Pull::kItem;
                        },
                    .clock = [&] { return now; },
                    .sleep = [](double) {},
                    .before_wait = [] {}});
  IntakeItem item;
  CHECK(gate.next(Wait::kNo, item) == Pull::kNotArrived);
  now = 1;
  CHECK(gate.next(Wait::kNo, item) == Pull::kItem);
  CHECK(std::get<Completion>(item).head.arrived == 1);
}

TEST_CASE("no item passes before its time, and none is kept waiting, at any rate") {
  std::mt19937 random(7);
  const auto fraction = [&] { return std::ldexp(static_cast<double>(random() % 1024), -10); };
  for (int round = 0; round < 200; ++round) {
    const double pace = 4 * fraction();  // seconds between arrivals, at most
    std::vector<Line> file;
    double arrival = 0, read = 0;
    for (int i = 0; i < 30; ++i) {
      if (random() % 4 != 0) arrival += pace * fraction();
      read += fraction();
      file.push_back({arrival, read});
    }
    Scene scene(file);
    for (size_t i = 0; i < file.size();) {
      const double before = scene.now;
      const double due = std::max(10 + *file[i].arrival, file[i].read);
      const auto wait = static_cast<Wait>(random() % 3);
      const Pull pulled = scene.next(wait);
      if (wait == Wait::kForArrival) {
        REQUIRE(pulled == Pull::kItem);
        REQUIRE(scene.now == std::max(before, due));
      } else {
        REQUIRE((pulled == Pull::kItem) == (scene.now >= due));
      }
      if (pulled == Pull::kItem) {
        REQUIRE(scene.head.index == static_cast<int64_t>(i));
        REQUIRE(scene.head.arrived == 10 + *file[i].arrival);
        ++i;
      } else {
        scene.now += fraction();
      }
    }
    CHECK(scene.next(Wait::kNo) == Pull::kEnded);
  }
}

TEST_CASE("a sleep ends when its time has passed, or with a signal") {
  Interrupt interrupt;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  interrupt.sleep(-1);
  interrupt.sleep(0.05);
  CHECK(seconds() >= 0.05);
  REQUIRE(kill(getpid(), SIGINT) == 0);
  CHECK(interrupt.happened());
  interrupt.sleep(1e300);
  CHECK(seconds() < 60);
}
