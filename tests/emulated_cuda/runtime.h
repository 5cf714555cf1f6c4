// The emulated device behind cuda_runtime_api.h and cublasLt.h, and what tests set about it.
//
// What is queued on a stream runs late: when somebody waits for it, or earlier at random moments,
// streams in any order that their events allow. What it reads and writes it reads and writes then,
// memory of the host that is not pinned too, so that a missing wait or a buffer filled too early
// gives wrong results. New memory is NaN in bfloat16, float16 and float32, and memory that cannot
// be touched follows its last page. Launches and calls that a device or a stream that is being
// captured would refuse are refused.
//
// Says nothing of speed, of blocks that run at the same time, of the time between an error and
// when it is told, nor of reads outside a tensor but inside the same piece of memory. The stream
// null is always waited for. There is one device, and its memory is the host's: host code that
// reads it is not found out.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_runtime_api.h"
#include "emulated.h"

namespace emulated {

struct Settings {
  uint64_t seed = 1;                    // of when what is queued runs
  int64_t memory = int64_t{256} << 30;  // bytes; only what is touched is taken
  int num_devices = 1;
  int driver_version = 13000;  // 0: there is none
  // Of cuBLAS: algorithms that the heuristic finds, and what it answers.
  int algorithms_found = 2, heuristic_status = 0;
};
Settings& settings();

// Counts what has happened so far, for tests of the tests.
struct Counts {
  int64_t launches = 0, products = 0, copies = 0, graph_launches = 0;
  int64_t ran_early = 0;  // items that ran before anybody waited for them
  int64_t max_queued = 0;
};
const Counts& counts();

// The call after the next `after` calls of the runtime that queue work or wait, and all later
// ones, answer with `error`: the device is lost. cudaSuccess: it is there again.
void lose_device(int64_t after, cudaError_t error);

// The rest is for the emulation itself.
using Work = std::function<void()>;
// Queues an item. `kind` and `what` tell nodes of graphs apart. False: refused; an error is set.
enum class ItemKind { kKernel, kCopy, kSet, kProduct, kEvent };
cudaError_t enqueue(cudaStream_t stream, ItemKind kind, const void* what, Work work);

struct Launch {
  const void* kernel;
  dim3 grid, block;
  int shared_bytes;
};
void launch(const Launch& launch, cudaStream_t stream, Work thread);
cudaError_t allow_shared(const void* kernel, int bytes);

// Whether all of it lies in one piece of the device's memory.
bool on_device(const void* p, size_t bytes);

}  // namespace emulated
