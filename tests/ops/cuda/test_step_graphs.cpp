// Which steps are queued eagerly, captured or replayed, on a device that only logs the calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "ops/cuda/step_graphs.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

enum class Fault { kNone, kBegin, kQueue, kEnd, kLaunch, kLost };

// A device whose steps are numbers. A graph logs what was captured, once for each launch.
struct Device {
  std::vector<int> done = {};
  std::vector<int>* captured = nullptr;
  std::multiset<const void*> running = {};  // graphs launched since the last wait
  Fault fault = Fault::kNone;
  int num_graphs = 0, num_waits = 0;
  bool broken = false;  // a rule was broken

  void queue(int step) {
    if (captured != nullptr && fault == Fault::kQueue) throw Error("queue");
    if (captured != nullptr && fault == Fault::kLost) throw DeviceLost("lost");
    (captured != nullptr ? *captured : done).push_back(step);
  }
};

struct Capture {
  struct Content {
    Device& device;
    std::vector<int> steps = {};
    explicit Content(Device& d) : device(d) { ++d.num_graphs; }
    ~Content() {
      --device.num_graphs;
      device.broken |= device.running.contains(this);
    }
  };
  using Graph = std::unique_ptr<Content>;

  Device& device;
  Graph captured = nullptr;

  void begin() {
    if (device.fault == Fault::kBegin) throw Error("begin");
    device.broken |= device.captured != nullptr;
    captured = std::make_unique<Content>(device);
    device.captured = &captured->steps;
  }
  Graph end() {
    device.broken |= device.captured == nullptr;
    device.captured = nullptr;
    if (device.fault == Fault::kEnd) {
      captured.reset();
      throw Error("end");
    }
    return std::move(captured);
  }
  void cancel() noexcept {
    device.broken |= device.captured == nullptr;
    device.captured = nullptr;
    captured.reset();
  }
  void launch(const Graph& graph) {
    device.broken |= device.captured != nullptr;
    if (device.fault == Fault::kLaunch) throw Error("launch");
    device.done.insert(device.done.end(), graph->steps.begin(), graph->steps.end());
    device.running.insert(graph.get());
  }
  void wait() {
    device.running.clear();
    ++device.num_waits;
  }
};

struct Rig {
  Device device = {};
  Capture capture = {device};
  StepGraphs<int, int, Capture> graphs;

  explicit Rig(size_t most) : graphs(most) {}
  int run(int shape) {
    return graphs.run(shape, capture, [&] {
      device.queue(shape);
      return 10 * shape;
    });
  }
  // Runs a step of the shape. Returns how it was queued.
  char way_of(int shape) {
    const GraphCounts before = graphs.counts();
    const size_t done = device.done.size();
    CHECK(run(shape) == 10 * shape);
    REQUIRE(device.done.size() == done + 1);
    CHECK(device.done.back() == shape);
    const GraphCounts& after = graphs.counts();
    return after.eager > before.eager         ? 'e'
           : after.captured > before.captured ? 'c'
           : after.replayed > before.replayed ? 'r'
                                              : '?';
  }
};

}  // namespace

TEST_CASE("the second step of a shape is captured, later ones are replayed") {
  Rig rig(8);
  for (const auto& [shape, way] : {std::pair{1, 'e'},
                                   {2, 'e'},
                                   {1, 'c'},
                                   {1, 'r'},
                                   {2, 'c'},
                                   {3, 'e'},
                                   {1, 'r'},
                                   {2, 'r'},
                                   {3, 'c'},
                                   {3, 'r'}}) {
    CHECK(rig.way_of(shape) == way);
  }
  CHECK(rig.device.num_graphs == 3);
  CHECK(rig.device.num_waits == 0);
  CHECK(!rig.device.broken);
}

TEST_CASE("a step whose graph fails is queued eagerly, and so are all later ones of its shape") {
  for (const Fault fault : {Fault::kBegin, Fault::kQueue, Fault::kEnd, Fault::kLaunch}) {
    Rig rig(8);
    CHECK(rig.way_of(1) == 'e');
    CHECK(rig.way_of(2) == 'e');
    rig.device.fault = fault;
    CHECK(rig.way_of(1) == 'e');
    CHECK(rig.graphs.counts().failed == 1);
    rig.device.fault = Fault::kNone;
    CHECK(rig.way_of(1) == 'e');
    CHECK(rig.way_of(2) == 'c');
    CHECK(rig.device.num_graphs == 1);
    rig.device.fault = Fault::kLaunch;
    CHECK(rig.way_of(2) == 'e');
    CHECK(rig.device.num_graphs == 0);
    CHECK(rig.graphs.counts().failed == 2);
    CHECK(!rig.device.broken);
  }
}

TEST_CASE("after several failures no graph is tried any more") {
  Rig rig(1000);
  rig.device.fault = Fault::kEnd;
  for (int shape = 0; shape < 100; ++shape) {
    CHECK(rig.way_of(shape) == 'e');
    CHECK(rig.way_of(shape) == 'e');
  }
  CHECK(rig.graphs.counts().failed <= 10);
}

TEST_CASE("a device that is lost during a capture is reported at once") {
  Rig rig(8);
  rig.run(1);
  rig.device.fault = Fault::kLost;
  CHECK_THROWS_AS(rig.run(1), DeviceLost);
  CHECK(rig.device.captured == nullptr);
  CHECK(rig.device.done.size() == 1);
}

TEST_CASE("a step that fails without a graph throws, and its shape counts as new") {
  Device device;
  Capture capture{device};
  StepGraphs<int, int, Capture> graphs(4);
  const auto fail = [&]() -> int { throw Error("a step"); };
  const auto succeed = [&] { return 5; };
  CHECK_THROWS_AS(graphs.run(1, capture, fail), Error);
  CHECK(graphs.run(1, capture, succeed) == 5);
  CHECK(graphs.counts().captured == 0);
  CHECK_THROWS_AS(graphs.run(1, capture, fail), Error);  // twice: captured and eagerly
  CHECK(device.captured == nullptr);
  CHECK(graphs.run(1, capture, succeed) == 5);
}

TEST_CASE("the most recently used shapes are kept, and no graph is destroyed while it may run") {
  Random random{3};
  for (int run = 0; run < 200; ++run) {
    const auto most = static_cast<size_t>(random.between(1, 6));
    Rig rig(most);
    std::vector<std::pair<int, int>> kept;  // shape and times used, last used last
    for (int step = 0; step < 100; ++step) {
      const int shape = random.below(random.below(2) ? 3 : 10);
      const auto found = std::ranges::find(kept, shape, &std::pair<int, int>::first);
      std::pair<int, int> entry = {shape, 0};
      if (found != kept.end()) {
        entry = *found;
        kept.erase(found);
      } else if (kept.size() == most) {
        kept.erase(kept.begin());
      }
      CHECK(rig.way_of(shape) == (entry.second == 0 ? 'e' : entry.second == 1 ? 'c' : 'r'));
      kept.emplace_back(shape, entry.second + 1);
      CHECK(rig.graphs.num_shapes() == kept.size());
      CHECK(rig.device.num_graphs ==
            std::ranges::count_if(kept, [](const auto& k) { return k.second > 1; }));
      REQUIRE(!rig.device.broken);
    }
  }
}

TEST_CASE("every step runs exactly once, whatever fails") {
  Random random{4};
  for (int run = 0; run < 300; ++run) {
    Rig rig(static_cast<size_t>(random.between(1, 5)));
    for (int step = 0; step < 60; ++step) {
      rig.device.fault = random.below(8) ? Fault::kNone : static_cast<Fault>(random.below(5));
      rig.way_of(random.below(6));
      REQUIRE(!rig.device.broken);
    }
  }
}

}  // namespace pagedinfer
