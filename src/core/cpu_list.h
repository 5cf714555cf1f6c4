#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Processors by the numbers that the system gives them, in the order of the threads that run there.
struct CpuList {
  std::vector<int> cpus;

  bool operator==(const CpuList&) const = default;
};

// Numbers and ranges with commas between them, as `taskset --cpu-list` takes them: "0,2-5". nullopt
// if it is none, or names a processor twice.
std::optional<CpuList> read_cpu_list(std::string_view text);
// In the same form.
std::string text_of(const CpuList& list);

// The processors that the calling thread may run on, ascending.
CpuList allowed_cpus();
// How many these are, at least 1: fewer than the machine has under taskset, numactl or in a
// container.
int num_cores();
// The calling thread, and those that it starts from now on, run on these processors only. Throws
// Error, naming the first one that this process may not use.
void confine_to(const CpuList& list);
// The calling thread runs on this processor only, if the system allows it.
void pin_to(int cpu);

// While an object lives, the thread that made it runs on one processor only, if the system allows
// it; then where it might run before.
class PinnedTo {
 public:
  explicit PinnedTo(int cpu);
  ~PinnedTo();
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

 private:
  cpu_set_t before_;
  bool known_;  // whether the system told before_
};

}  // namespace pagedinfer
