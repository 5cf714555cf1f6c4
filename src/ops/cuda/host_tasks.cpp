#include "ops/cuda/host_tasks.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/cpu_list.h"
#include "core/error.h"
#include "core/start_thread.h"

namespace pagedinfer {
namespace {

constexpr int kMaxThreads = 8;
constexpr int kTasksPerThread = 8;  // at least: to start a thread takes as long as some tasks

}  // namespace

void run_host_tasks(int count, const std::function<void(int)>& task) {
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int i = next++; i < count; i = next++) task(i);
  };
  const int most = std::max(1, std::min(kMaxThreads, num_cores()));
  std::vector<std::jthread> threads;
  try {
    for (int i = 1; i < std::min(count / kTasksPerThread, most); ++i) {
      threads.push_back(start_thread<std::jthread>("makes masks of tokens", work));
    }
  } catch (const Error&) {  // those that there are do it
  }
  work();
}

}  // namespace pagedinfer
