#include "core/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/numbers.h"

namespace pagedinfer {
namespace {

bool set_of_thread(const cpu_set_t& set) { return sched_setaffinity(0, sizeof(set), &set) == 0; }

}  // namespace

std::optional<CpuList> read_cpu_list(std::string_view text) {
  CpuList list;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, comma - begin);
    const size_t dash = std::min(part.find('-'), part.size());
    const auto first = read_number<int>(part.substr(0, dash));
    const auto last = dash == part.size() ? first : read_number<int>(part.substr(dash + 1));
    if (!first || !last) return std::nullopt;
    if (*first < 0 || *last < *first || *last >= CPU_SETSIZE) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) {
      if (std::ranges::find(list.cpus, cpu) != list.cpus.end()) return std::nullopt;
      list.cpus.push_back(cpu);
    }
    begin = comma + 1;
  }
  return list;
}

std::string text_of(const CpuList& list) {
  std::string text;
  for (size_t begin = 0; begin < list.cpus.size();) {
    size_t end = begin + 1;
    while (end < list.cpus.size() && list.cpus[end] == list.cpus[end - 1] + 1) ++end;
    if (begin > 0) text += ',';
    text += fmt::format("{}", list.cpus[begin]);
    if (end - begin > 1) text += fmt::format("-{}", list.cpus[end - 1]);
    begin = end;
  }
  return text;
}

CpuList allowed_cpus() {
  cpu_set_t allowed;
  CpuList list;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) list.cpus.push_back(cpu);
  }
  return list;
}

int num_cores() { return std::max(1, static_cast<int>(allowed_cpus().cpus.size())); }

void confine_to(const CpuList& list) {
  const CpuList allowed = allowed_cpus();
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int cpu : list.cpus) {
    if (std::ranges::find(allowed.cpus, cpu) == allowed.cpus.end()) {
      throw Error(fmt::format("--cpu-list {}: there is no processor {}; expected some of {}",
                              text_of(list), cpu, text_of(allowed)));
    }
    CPU_SET(cpu, &wanted);
  }
  if (!set_of_thread(wanted)) {
    throw Error(fmt::format("--cpu-list {}: {}", text_of(list), std::strerror(errno)));
  }
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  set_of_thread(set);
}

PinnedTo::PinnedTo(int cpu) : known_(sched_getaffinity(0, sizeof(before_), &before_) == 0) {
  if (known_) pin_to(cpu);
}

PinnedTo::~PinnedTo() {
  if (known_) set_of_thread(before_);
}

}  // namespace pagedinfer
