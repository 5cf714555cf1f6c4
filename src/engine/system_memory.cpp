#include "engine/system_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "core/error.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

// The number that `file` begins with; nullopt for "max" and for files that are not there.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// What a group's limit leaves. Page cache that nobody has touched lately counts as used, but
// the kernel gives it back before it refuses memory.
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

int64_t available_to_machine(const fs::path& root) {
  const fs::path file = root / "proc/meminfo";
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    int64_t kib = 0;
    if (fields >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  throw Error(file.string() + ": expected a line MemAvailable, found none");
}

}  // namespace

int64_t available_memory(const fs::path& root) {
  int64_t available = available_to_machine(root);
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
    // Every group above has a say too. In a container the path may not be there: the mount is.
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
