// The emulated device behind cuda_runtime_api.h and cublasLt.h, and its settings for tests.
//
// Work on a stream runs late: when the host waits for it, or earlier at random moments, with
// streams in any order that their events allow. Its reads and writes happen then, also those of
// unpinned host memory, so that a missing wait or a buffer that is reused too early gives wrong
// results. New memory is NaN in bfloat16, float16 and float32, and an inaccessible page follows it.
// Launches and calls that a device refuses, or that it refuses during a capture, are refused.
//
// It does not show speed, accesses to memory that other threads see in another order, which fences
// prevent, the delay until an error is reported, or reads outside a tensor but inside the same
// allocation. The null stream always synchronizes. There is one device, and its memory is host
// memory: host code that reads it directly is not detected.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_runtime_api.h"
#include "emulated.h"

namespace emulated {

struct Settings {
  uint64_t seed = 1;                          // of the moments at which queued work runs
  int64_t memory = int64_t{256} << 30;        // bytes; pages are allocated when they are touched
  int64_t pinned_memory = int64_t{64} << 30;  // of the host, in one piece
  int shared_memory = 227 << 10;  // of a thread block, at most; cards of 8.6, 8.9 and 12.0 have 99
  int num_devices = 1;
  int driver_version = 13000;   // 0: there is none
  bool refuses_graphs = false;  // no graph can be instantiated
  bool is_taken = false;        // another program has the device for itself
  // Of cuBLAS: algorithms that the heuristic finds, and what it answers.
  int algorithms_found = 8, heuristic_status = 0;
  // Algorithms that fail when they multiply: the first ones found, those on tensor cores, and those
  // found for at most so many rows.
  int algorithms_refused = 0;
  bool refuses_tensor = false;
  uint64_t rows_refused = 0;
  // Of those found, the first ones add in another order from so many rows on.
  int algorithms_uneven = 0;
  uint32_t uneven_rows = 100;
  bool has_tensor_algorithms = true;
  bool ignores_mask = false;  // finds algorithms that the preference does not allow
  // Algorithms have no attributes of their configuration but those that say whether sums are split.
  bool lacks_attributes = false;
  // Of the algorithms found, the first ones split sums whatever is allowed, and do not say so.
  int algorithms_silent = 0;
  // Algorithms for at most so many rows add in another order, on tensor cores too.
  uint64_t unequal_rows = 0;
  // Unless it is 0 it is what a product takes, twice as much by the first three proposals, and
  // events see no other time.
  double product_ms = 0;
};
Settings& settings();
// What the environment sets: PAGEDINFER_EMULATED="NAME=NUMBER ...". shared_kib is the shared memory
// in KiB; some other settings have their own names.
Settings settings_of_environment();

// Restores the settings.
struct KeptSettings {
  const Settings before = settings();
  ~KeptSettings() { settings() = before; }
};

// Counts what has happened so far, for tests of the tests.
struct Counts {
  int64_t launches = 0, products = 0, copies = 0, graph_launches = 0;
  int64_t allocations = 0;  // of the device's memory, and of the host's that is pinned
  int64_t graphs = 0;       // that exist now, captured and instantiated ones
  int64_t ran_early = 0;    // items that ran before the host waited for them
  int64_t max_queued = 0;
};
const Counts& counts();

// Loses the device: after `after` more calls of the runtime that queue work or wait, all such calls
// return `error`. cudaSuccess brings the device back.
void lose_device(int64_t after, cudaError_t error);
// After `after` more such calls one of them returns `error` and does nothing; later ones succeed.
// cudaSuccess: none does.
void fail_once(int64_t after, cudaError_t error);

// The rest is private to the emulation.
using Work = std::function<void()>;
// Queues an item. Nodes of graphs are equal if their `kind` and `what` are. Returns an error, and
// sets it, if the item is refused.
enum class ItemKind { kKernel, kCopy, kSet, kProduct, kEvent };
cudaError_t enqueue(cudaStream_t stream, ItemKind kind, const void* what, Work work);

struct Launch {
  const void* kernel;
  dim3 grid, block;
  int shared_bytes;
};
void launch(const Launch& launch, cudaStream_t stream, Work thread);
cudaError_t allow_shared(const void* kernel, int bytes);

// Lets time pass on the device.
void spend(double milliseconds);
double spent_ms();

// Whether any stream is being captured.
bool is_capturing();

// Whether the range lies in one allocation of the device's memory.
bool on_device(const void* p, size_t bytes);

}  // namespace emulated
