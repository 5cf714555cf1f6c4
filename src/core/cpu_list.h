#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Processors by the system's numbers. Thread i runs on cpus[i].
struct CpuList {
  std::vector<int> cpus;

  bool operator==(const CpuList&) const = default;
};

// Parses numbers and ranges separated by commas, as `taskset --cpu-list` takes them: "0,2-5".
// nullopt if `text` is no such list or names a processor twice.
std::optional<CpuList> read_cpu_list(std::string_view text);
// Writes the form that read_cpu_list() parses.
std::string text_of(const CpuList& list);

// The processors that the calling thread may run on, ascending.
CpuList allowed_cpus();
// The number of allowed_cpus(), at least 1. It is below the machine's number under taskset, under
// numactl or in a container.
int num_cores();
// Confines the calling thread, and every thread that it starts later, to these processors. Throws
// Error naming the first processor that this process may not use.
void confine_to(const CpuList& list);
// Confines the calling thread to this processor, if the system allows it.
void pin_to(int cpu);

// While an object lives, the thread that made it runs on one processor only, if the system allows
// it. The destructor restores the processors that the thread was allowed before.
class PinnedTo {
 public:
  explicit PinnedTo(int cpu);
  ~PinnedTo();
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

 private:
  cpu_set_t before_;
  bool known_;  // whether before_ could be read
};

}  // namespace pagedinfer
