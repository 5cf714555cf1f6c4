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
  std::vector<int>* recording = nullptr;
  std::multiset<const void*> running = {};  // graphs launched since the last wait
  Fault fault = Fault::kNone;
  int num_graphs = 0, num_waits = 0;
  bool broken = false;  // a rule was broken

  void queue(int step) {
    if (recording != nullptr && fault == Fault::kQueue) throw Error("queue");
    if (recording != nullptr && fault == Fault::kLost) throw DeviceLost("lost");
    (recording != nullptr ? *recording : done).push_back(step);
  }
};

struct Recorder {
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
  Graph recording = nullptr;

  void begin() {
    if (device.fault == Fault::kBegin) throw Error("begin");
    device.broken |= device.recording != nullptr;
    recording = std::make_unique<Content>(device);
    device.recording = &recording->steps;
  }
  Graph end() {
    device.broken |= device.recording == nullptr;
    device.recording = nullptr;
    if (device.fault == Fault::kEnd) {
      recording.reset();
      throw Error("end");
    }
    return std::move(recording);
  }
  void cancel() noexcept {
    device.broken |= device.recording == nullptr;
    device.recording = nullptr;
    recording.reset();
  }
  void launch(const Graph& graph) {
    device.broken |= device.recording != nullptr;
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
  Recorder recorder = {device};
  StepGraphs<int, int, Recorder> graphs;

  explicit Rig(size_t most) : graphs(most) {}
  int run(int shape) {
    return graphs.run(shape, recorder, [&] {
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
    return after.queued > before.queued       ? 'q'
           : after.recorded > before.recorded ? 'r'
           : after.replayed > before.replayed ? 'p'
                                              : '?';
  }
};

}  // namespace

TEST_CASE("the second step of a shape is captured, later ones are replayed") {
  Rig rig(8);
  for (const auto& [shape, way] : {std::pair{1, 'q'},
                                   {2, 'q'},
                                   {1, 'r'},
                                   {1, 'p'},
                                   {2, 'r'},
                                   {3, 'q'},
                                   {1, 'p'},
                                   {2, 'p'},
                                   {3, 'r'},
                                   {3, 'p'}}) {
    CHECK(rig.way_of(shape) == way);
  }
  CHECK(rig.device.num_graphs == 3);
  CHECK(rig.device.num_waits == 0);
  CHECK(!rig.device.broken);
}

TEST_CASE("a step whose graph fails is queued eagerly, and so are all later ones of its shape") {
  for (const Fault fault : {Fault::kBegin, Fault::kQueue, Fault::kEnd, Fault::kLaunch}) {
    Rig rig(8);
    CHECK(rig.way_of(1) == 'q');
    CHECK(rig.way_of(2) == 'q');
    rig.device.fault = fault;
    CHECK(rig.way_of(1) == 'q');
    CHECK(rig.graphs.counts().failed == 1);
    rig.device.fault = Fault::kNone;
    CHECK(rig.way_of(1) == 'q');
    CHECK(rig.way_of(2) == 'r');
    CHECK(rig.device.num_graphs == 1);
    rig.device.fault = Fault::kLaunch;
    CHECK(rig.way_of(2) == 'q');
    CHECK(rig.device.num_graphs == 0);
    CHECK(rig.graphs.counts().failed == 2);
    CHECK(!rig.device.broken);
  }
}

TEST_CASE("after several failures no graph is tried any more") {
  Rig rig(1000);
  rig.device.fault = Fault::kEnd;
  for (int shape = 0; shape < 100; ++shape) {
    CHECK(rig.way_of(shape) == 'q');
    CHECK(rig.way_of(shape) == 'q');
  }
  CHECK(rig.graphs.counts().failed <= 10);
}

TEST_CASE("a device that is lost during a capture is reported at once") {
  Rig rig(8);
  rig.run(1);
  rig.device.fault = Fault::kLost;
  CHECK_THROWS_AS(rig.run(1), DeviceLost);
  CHECK(rig.device.recording == nullptr);
  CHECK(rig.device.done.size() == 1);
}

TEST_CASE("a step that fails without a graph throws, and its shape counts as new") {
  Device device;
  Recorder recorder{device};
  StepGraphs<int, int, Recorder> graphs(4);
  const auto fail = [&]() -> int { throw Error("a step"); };
  const auto succeed = [&] { return 5; };
  CHECK_THROWS_AS(graphs.run(1, recorder, fail), Error);
  CHECK(graphs.run(1, recorder, succeed) == 5);
  CHECK(graphs.counts().recorded == 0);
  CHECK_THROWS_AS(graphs.run(1, recorder, fail), Error);  // twice: captured and eagerly
  CHECK(device.recording == nullptr);
  CHECK(graphs.run(1, recorder, succeed) == 5);
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
      CHECK(rig.way_of(shape) == (entry.second == 0 ? 'q' : entry.second == 1 ? 'r' : 'p'));
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
