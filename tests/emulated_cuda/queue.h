// Between the files of the emulated runtime.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime.h"

namespace emulated {

// A record of an event counts up `recorded` when it is queued; `completed` follows.
struct EventState {
  uint64_t recorded = 0, completed = 0;
  bool is_timed = false;
  double completed_at = 0;  // milliseconds
};

struct Item {
  ItemKind kind;
  const void* what;
  Work work;
  std::function<bool()> ready = [] { return true; };  // whether its turn may come
};

}  // namespace emulated

struct CUgraph_st {
  std::vector<emulated::Item> items = {};
};
struct CUgraphExec_st {
  std::vector<emulated::Item> items = {};
};
struct CUstream_st {
  std::deque<emulated::Item> queue = {};
  std::unique_ptr<CUgraph_st> capture = nullptr;  // not null: what is queued goes there
  bool capture_is_global = true, capture_is_broken = false;
};
struct CUevent_st {
  std::shared_ptr<emulated::EventState> state = std::make_shared<emulated::EventState>();
  bool in_capture = false;  // its last record
};

namespace emulated {

struct Device {
  std::recursive_mutex mutex = {};
  Settings settings = {};
  Counts counts = {};
  std::vector<std::unique_ptr<CUstream_st>> streams = {};
  cudaError_t last_error = cudaSuccess;
  cudaError_t lost = cudaSuccess;
  int64_t calls_until_lost = -1;
  uint64_t random = 0;
  int mood = 0, calls_in_mood = 0;
};
Device& device();

// Every function of the runtime holds the device for as long as it runs.
class Call {
 public:
  Call() : lock_(device().mutex) {}

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

cudaError_t enqueue(cudaStream_t stream, Item item);

// Notes it for cudaGetLastError().
cudaError_t answer(cudaError_t error);
// What a call that queues or waits answers before it does anything.
cudaError_t enter();

// Runs some of what is queued, or nothing.
void drift();
// Runs what is queued until `done`, in a random order.
void run_until(const std::function<bool()>& done);
void run_all();

// For calls that wait or that take memory: refused while a stream is being captured, which spoils
// the capture.
cudaError_t refuse_in_capture();

bool is_pinned(const void* p, size_t bytes);
int64_t bytes_taken();

}  // namespace emulated
