#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/cuda/cuda_ops.h"

namespace pagedinfer {

// Queues steps: the first of a shape as they come, so that all that happens at a first use has
// happened; the second is recorded as a graph, which is launched then and for every later one.
// Where that fails the step is queued as it comes, and the shape from then on. Knows nothing of
// devices, nor of what a step is.
//
// Shape is what a step's graph depends on. Result is what queueing a step gives; launching its
// graph gives the same. Recorder has
//
//   using Graph;                 // moved; lets go of what it stands for when it is destroyed
//   void begin();                // what is queued from now on is recorded and not run
//   Graph end();                 // what was; the recording is over even if this throws
//   void cancel() noexcept;      // it is over, and forgotten
//   void launch(const Graph&);   // queues a graph; nothing has been queued if it throws
//   void wait();                 // for all that is queued
template <class Shape, class Result, class Recorder>
class StepGraphs {
 public:
  // Keeps that many shapes, those last used.
  explicit StepGraphs(size_t max_shapes) : max_shapes_(max_shapes) {}

  // `queue` queues a step of this shape. What it throws is thrown if it throws again when nothing
  // is being recorded; DeviceLost at once.
  template <class Queue>
  Result run(const Shape& shape, Recorder& recorder, const Queue& queue) {
    Entry& entry = entry_for(shape, recorder);
    if (entry.is_met && !entry.is_hopeless && failures_ < kMaxFailures) {
      try {
        if (!entry.graph) {
          record(entry, recorder, queue);
        } else {
          recorder.launch(*entry.graph);
          ++counts_.replayed;
        }
        return *entry.result;
      } catch (const DeviceLost&) {
        throw;
      } catch (const Error&) {
        ++failures_;
        ++counts_.failed;
        entry.is_hopeless = true;
        forget_graph(entry, recorder);
      }
    }
    Result result = queue();
    entry.is_met = true;
    ++counts_.queued;
    return result;
  }

  const GraphCounts& counts() const { return counts_; }
  size_t num_shapes() const { return entries_.size(); }

 private:
  // Where recording does not work it is not tried with every shape.
  static constexpr int kMaxFailures = 4;

  struct Entry {
    bool is_met = false, is_hopeless = false;
    std::optional<typename Recorder::Graph> graph = {};
    std::optional<Result> result = {};  // of its recording
    uint64_t last_used = 0;
  };

  template <class Queue>
  void record(Entry& entry, Recorder& recorder, const Queue& queue) {
    recorder.begin();
    try {
      entry.result = queue();
    } catch (...) {
      recorder.cancel();
      throw;
    }
    entry.graph = recorder.end();
    recorder.launch(*entry.graph);
    ++counts_.recorded;
  }

  void forget_graph(Entry& entry, Recorder& recorder) {
    if (!entry.graph) return;
    recorder.wait();  // it may be running
    entry.graph.reset();
  }

  Entry& entry_for(const Shape& shape, Recorder& recorder) {
    const auto found = entries_.find(shape);
    if (found == entries_.end() && entries_.size() >= max_shapes_) {
      auto oldest = entries_.begin();
      for (auto i = entries_.begin(); i != entries_.end(); ++i) {
        if (i->second.last_used < oldest->second.last_used) oldest = i;
      }
      forget_graph(oldest->second, recorder);
      entries_.erase(oldest);
    }
    Entry& entry = found == entries_.end() ? entries_[shape] : found->second;
    entry.last_used = ++uses_;
    return entry;
  }

  const size_t max_shapes_;
  std::map<Shape, Entry> entries_;
  uint64_t uses_ = 0;
  int failures_ = 0;
  GraphCounts counts_;
};

}  // namespace pagedinfer
