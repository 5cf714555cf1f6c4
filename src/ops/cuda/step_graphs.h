#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/cuda/cuda_ops.h"

namespace pagedinfer {

// Queues steps. The first step of a shape is queued eagerly, call by call, which completes all
// initializations at first use. The second is captured as a graph and launched; every later one
// launches that graph. If that fails, this step and all later ones of the shape are queued eagerly.
// Knows nothing of devices, nor of what a step is.
//
// Shape is everything that a step's graph depends on. Result is what queueing a step returns;
// launching its graph gives the same result. Capture has
//
//   using Graph;                 // movable; its destructor releases the graph
//   void begin();                // what is queued from now on is captured and not run
//   Graph end();                 // ends the capture, even if it throws
//   void cancel() noexcept;      // ends the capture and drops it
//   void launch(const Graph&);   // queues a graph; if it throws, nothing was queued
//   void wait();                 // until all queued work is done
template <class Shape, class Result, class Capture>
class StepGraphs {
 public:
  // Keeps the graphs of the max_shapes most recently used shapes.
  explicit StepGraphs(size_t max_shapes) : max_shapes_(max_shapes) {}

  // Runs a step of this shape; `queue` queues it. If a capture throws Error, the step is queued
  // eagerly instead. Throws an Error of the eager step, and always DeviceLost.
  template <class Queue>
  Result run(const Shape& shape, Capture& capture, const Queue& queue) {
    Entry& entry = entry_for(shape, capture);
    if (entry.is_known && !entry.has_failed && failures_ < kMaxFailures) {
      try {
        if (!entry.graph) {
          capture_graph(entry, capture, queue);
        } else {
          capture.launch(*entry.graph);
          ++counts_.replayed;
        }
        return *entry.result;
      } catch (const DeviceLost&) {
        throw;
      } catch (const Error&) {
        ++failures_;
        ++counts_.failed;
        entry.has_failed = true;
        destroy_graph(entry, capture);
      }
    }
    Result result = queue();
    entry.is_known = true;
    ++counts_.eager;
    return result;
  }

  // Destroys all graphs. To be called before memory that they use gets another use.
  void forget(Capture& capture) {
    capture.wait();  // one of them may be running
    entries_.clear();
  }

  const GraphCounts& counts() const { return counts_; }
  size_t num_shapes() const { return entries_.size(); }

 private:
  // After so many failures no graph is tried any more.
  static constexpr int kMaxFailures = 4;

  struct Entry {
    bool is_known = false, has_failed = false;
    std::optional<typename Capture::Graph> graph = {};
    std::optional<Result> result = {};  // what queue() returned during the capture
    uint64_t last_used = 0;
  };

  template <class Queue>
  void capture_graph(Entry& entry, Capture& capture, const Queue& queue) {
    capture.begin();
    try {
      entry.result = queue();
    } catch (...) {
      capture.cancel();
      throw;
    }
    entry.graph = capture.end();
    capture.launch(*entry.graph);
    ++counts_.captured;
  }

  void destroy_graph(Entry& entry, Capture& capture) {
    if (!entry.graph) return;
    capture.wait();  // it may be running
    entry.graph.reset();
  }

  Entry& entry_for(const Shape& shape, Capture& capture) {
    const auto found = entries_.find(shape);
    if (found == entries_.end() && entries_.size() >= max_shapes_) {
      auto oldest = entries_.begin();
      for (auto i = entries_.begin(); i != entries_.end(); ++i) {
        if (i->second.last_used < oldest->second.last_used) oldest = i;
      }
      destroy_graph(oldest->second, capture);
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
