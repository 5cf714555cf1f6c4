#include "load/system_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "core/error.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHeapAddresses = int64_t{64} << 20;  // of a malloc heap, on 64-bit systems

// The number that `file` begins with; nullopt for "max" or if the file does not exist.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// Bytes below a control group's limit. Counts inactive page cache as free, because it is reclaimed
// before an allocation fails.
std::optional<int64_t> left_in_group(const fs::path& group, const char* limit_name,
                                     const char* usage_name) {
  const std::optional<int64_t> limit = number_in(group / limit_name);
  const std::optional<int64_t> usage = number_in(group / usage_name);
  if (!limit || !usage) return std::nullopt;
  int64_t reclaimable = 0;
  std::ifstream stat(group / "memory.stat");
  for (std::string name; stat >> name;) {
    int64_t value = 0;
    if (!(stat >> value)) break;
    if (name == "inactive_file" || name == "total_inactive_file") reclaimable = value;
  }
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - reclaimable));
}

// The lines of proc/meminfo, in bytes.
std::map<std::string, int64_t> memory_info(const fs::path& root) {
  std::map<std::string, int64_t> info;
  std::ifstream in(root / "proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    int64_t kib = 0;
    if (fields >> name >> kib) info[name] = kib * 1024;
  }
  return info;
}

int64_t available_to_machine(const fs::path& root) {
  const std::map<std::string, int64_t> info = memory_info(root);
  const auto available = info.find("MemAvailable:");
  if (available == info.end()) {
    throw Error((root / "proc/meminfo").string() + ": expected a line MemAvailable, found none");
  }
  const auto limit = info.find("CommitLimit:"), promised = info.find("Committed_AS:");
  const bool is_strict = number_in(root / "proc/sys/vm/overcommit_memory").value_or(0) == 2;
  if (!is_strict || limit == info.end() || promised == info.end()) return available->second;
  return std::clamp<int64_t>(limit->second - promised->second, 0, available->second);
}

// The number of malloc heaps besides the first.
int64_t num_more_heaps(const ProcessLimits& limits) {
  constexpr int64_t kMax = 1024;
  return std::clamp<int64_t>(limits.addresses / (16 * kHeapAddresses) - 1, 0, kMax);
}

// The address space and memory that an idle thread takes.
int64_t stack_bytes() {
  pthread_attr_t attributes;
  size_t stack = 0, guard = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return static_cast<int64_t>(stack + guard);
}

// Bytes that the limits leave after the process and `num_threads` more threads have taken theirs.
int64_t left_of(const ProcessLimits& limits, const fs::path& root, int num_threads) {
  std::ifstream in(root / "proc/self/statm");
  int64_t addresses = 0, data = 0, unused = 0;  // in pages
  if (!(in >> addresses >> unused >> unused >> unused >> unused >> data)) return INT64_MAX;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t heaps = std::min<int64_t>(num_threads, num_more_heaps(limits)) * kHeapAddresses;
  const int64_t beside = num_threads * stack_bytes();
  return std::max<int64_t>(
      0, std::min(limits.addresses - addresses * page - heaps, limits.data - data * page) - beside);
}

int64_t limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0) return INT64_MAX;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
}

}  // namespace

ProcessLimits process_limits() {
  return {.addresses = limit_of(RLIMIT_AS), .data = limit_of(RLIMIT_DATA)};
}

void limit_heaps(const ProcessLimits& limits) {
  if (limits.addresses == INT64_MAX) return;
  mallopt(M_ARENA_MAX, static_cast<int>(num_more_heaps(limits)) + 1);
}

int64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t available_memory(const fs::path& root, const ProcessLimits& limits, int num_more_threads) {
  int64_t available = std::min(available_to_machine(root), left_of(limits, root, num_more_threads));
  std::ifstream groups(root / "proc/self/cgroup");
  // A line is "hierarchy:controllers:path"; version 2 has no controllers.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("memory") == std::string::npos) continue;
    const fs::path mount = root / (v2 ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    // The limits of all parent groups apply too. In a container the path may be missing, but the
    // mount exists.
    fs::path path = fs::path(line.substr(second + 1)).relative_path();
    while (true) {
      const auto left =
          v2 ? left_in_group(mount / path, "memory.max", "memory.current")
             : left_in_group(mount / path, "memory.limit_in_bytes", "memory.usage_in_bytes");
      if (left) available = std::min(available, *left);
      if (path.empty()) break;
      path = path.parent_path();
    }
  }
  return available;
}

}  // namespace pagedinfer
