#include "queue.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace emulated {
namespace {

uint64_t random_bits() {  // splitmix64
  Device& d = device();
  uint64_t z = (d.random += 0x9e3779b97f4a7c15) ^ d.settings.seed * 0xd1342543de82ef95;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
int below(int n) { return static_cast<int>(random_bits() % static_cast<uint64_t>(n)); }

// False: no queued item may run now.
bool run_one() {
  std::vector<CUstream_st*> able;
  for (const auto& stream : device().streams) {
    if (!stream->queue.empty() && stream->queue.front().ready()) able.push_back(stream.get());
  }
  if (able.empty()) return false;
  CUstream_st& stream = *able[static_cast<size_t>(below(static_cast<int>(able.size())))];
  const Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  item.work();
  return true;
}

}  // namespace

Device& device() {
  static Device device;
  return device;
}
Settings& settings() { return device().settings; }
const Counts& counts() { return device().counts; }

void lose_device(int64_t after, cudaError_t error) {
  const Call call;
  device().lost = error;
  device().calls_until_lost = after;
  if (error == cudaSuccess) device().calls_until_lost = -1, device().last_error = cudaSuccess;
}

void fail_once(int64_t after, cudaError_t error) {
  const Call call;
  device().fault = error;
  device().calls_until_fault = error == cudaSuccess ? -1 : after;
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) device().last_error = error;
  return error;
}

cudaError_t enter() {
  Device& d = device();
  if (d.settings.is_taken) return answer(cudaErrorDevicesUnavailable);
  if (d.calls_until_fault >= 0 && d.calls_until_fault-- == 0) return answer(d.fault);
  if (d.calls_until_lost < 0) return cudaSuccess;
  if (d.calls_until_lost > 0) return --d.calls_until_lost, cudaSuccess;
  for (const auto& stream : d.streams) stream->queue.clear();
  return answer(d.lost);
}

void drift() {
  Device& d = device();
  if (d.calls_in_mood-- <= 0) {
    d.mood = below(3);
    d.calls_in_mood = below(200);
  }
  int most = d.mood == 0 ? 0 : d.mood == 1 ? INT_MAX : below(4);
  for (; most > 0 && run_one(); --most) ++d.counts.ran_early;
}

void run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (run_one()) continue;
    std::fputs("the host waits for what no stream will ever do\n", stderr);
    std::abort();
  }
}

void run_all() {
  run_until([] {
    return std::ranges::all_of(device().streams, [](const auto& s) { return s->queue.empty(); });
  });
}

cudaError_t enqueue(cudaStream_t stream, ItemKind kind, const void* what, Work work) {
  return enqueue(stream, {kind, what, std::move(work)});
}

cudaError_t enqueue(cudaStream_t stream, Item item) {
  const Call call;
  if (const cudaError_t error = enter(); error != cudaSuccess) return error;
  if (item.kind == ItemKind::kProduct) ++device().counts.products;
  if (stream == nullptr) {
    if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    run_all();
    run_until(item.ready);
    item.work();
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->items.push_back(std::move(item));
    return cudaSuccess;
  }
  stream->queue.push_back(std::move(item));
  Counts& counts = device().counts;
  counts.max_queued = std::max(counts.max_queued, static_cast<int64_t>(stream->queue.size()));
  drift();
  return cudaSuccess;
}

namespace {

constexpr int kPlainShared = 48 << 10;

std::map<const void*, int>& allowed_shared() {
  static std::map<const void*, int> allowed;
  return allowed;
}

cudaError_t problem_of(const Launch& launch) {
  const dim3 &grid = launch.grid, &block = launch.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT_MAX || grid.y > 65535 ||
      grid.z > 65535 || block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 ||
      block.y > 1024 || block.z > 64 || int64_t{block.x} * block.y * block.z > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  const auto found = allowed_shared().find(launch.kernel);
  const int allowed = found == allowed_shared().end() ? kPlainShared : found->second;
  return launch.shared_bytes < 0 || launch.shared_bytes > std::max(allowed, kPlainShared) ||
                 launch.shared_bytes > settings().shared_memory
             ? cudaErrorInvalidValue
             : cudaSuccess;
}

}  // namespace

cudaError_t allow_shared(const void* kernel, int bytes) {
  const Call call;
  if (bytes < 0 || bytes > settings().shared_memory) return answer(cudaErrorInvalidValue);
  allowed_shared()[kernel] = bytes;
  return cudaSuccess;
}

void launch(const Launch& launch, cudaStream_t stream, Work thread) {
  const Call call;
  if (const cudaError_t error = problem_of(launch); error != cudaSuccess) {
    answer(error);
    return;
  }
  ++device().counts.launches;
  static_cast<void>(
      enqueue(stream, ItemKind::kKernel, launch.kernel, [launch, thread = std::move(thread)] {
        run(launch.kernel, launch.grid, launch.block, launch.shared_bytes, thread);
      }));
}

}  // namespace emulated
