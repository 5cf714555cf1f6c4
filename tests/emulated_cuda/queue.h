// Private to the emulated runtime: what its files share.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime.h"

namespace emulated {

// cudaEventRecord() increments `recorded` when it is called, and `completed` when the device gets
// to it.
struct EventState {
  uint64_t recorded = 0, completed = 0;
  bool is_timed = false;
  double completed_at = 0;  // milliseconds
};

struct Item {
  ItemKind kind;
  const void* what;
  Work work;
  std::function<bool()> ready = [] { return true; };  // whether it may run now
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
  std::unique_ptr<CUgraph_st> capture = nullptr;  // not null: work is captured, not queued
  bool capture_is_global = true, capture_is_broken = false;
};
struct CUevent_st {
  std::shared_ptr<emulated::EventState> state = std::make_shared<emulated::EventState>();
  bool in_capture = false;  // its last cudaEventRecord() was captured
};

namespace emulated {

struct Device {
  std::recursive_mutex mutex = {};
  Settings settings = settings_of_environment();
  Counts counts = {};
  std::vector<std::unique_ptr<CUstream_st>> streams = {};
  cudaError_t last_error = cudaSuccess;
  cudaError_t lost = cudaSuccess;
  int64_t calls_until_lost = -1;
  cudaError_t fault = cudaSuccess;
  int64_t calls_until_fault = -1;
  double spent_ms = 0;  // by products
  uint64_t random = 0;
  int mood = 0, calls_in_mood = 0;
};
Device& device();

// Locks the device for the duration of a function of the runtime.
class Call {
 public:
  Call() : lock_(device().mutex) {}

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

cudaError_t enqueue(cudaStream_t stream, Item item);

// Returns the error, after storing it for cudaGetLastError().
cudaError_t answer(cudaError_t error);
// Every call that queues or waits begins with this and returns the error, if there is one.
cudaError_t enter();

// Runs a random number of queued items, perhaps none.
void drift();
// Runs queued items in a random order until done().
void run_until(const std::function<bool()>& done);
void run_all();

// For calls that wait or allocate: if a stream is being captured, returns an error and invalidates
// the capture.
cudaError_t refuse_in_capture();

bool is_pinned(const void* p, size_t bytes);
int64_t bytes_taken();

}  // namespace emulated
