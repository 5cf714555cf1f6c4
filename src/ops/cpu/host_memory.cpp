#include "ops/cpu/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace pagedinfer {

HostMemory::HostMemory(int64_t bytes, std::string_view what) {
  if (bytes == 0) return;
  void* memory = MAP_FAILED;
  if (bytes > 0) {
    memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (memory == MAP_FAILED) {
    throw Error(
        fmt::format("no memory for {}: {} bytes asked for: {} (a smaller --kv-memory leaves more)",
                    what, bytes, std::strerror(bytes > 0 ? errno : EINVAL)));
  }
  data_ = static_cast<char*>(memory);
  size_ = bytes;
}

// The memory begins at a multiple of the size of a large page. More is mapped for that, and the
// excess is given back.
HostMemory HostMemory::of_large_pages(int64_t bytes, std::string_view what) {
  constexpr int64_t kLargePage = int64_t{2} << 20;
  if (bytes < kLargePage) return {bytes, what};
  HostMemory whole(bytes + kLargePage, what);
  const auto begin = reinterpret_cast<uintptr_t>(whole.data_);
  const auto before = static_cast<int64_t>(-begin % kLargePage);
  const int64_t used = (before + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (before > 0) munmap(whole.data_, static_cast<size_t>(before));
  if (used < whole.size_) munmap(whole.data_ + used, static_cast<size_t>(whole.size_ - used));
  whole.data_ += before;
  whole.size_ = bytes;
  whole.prefer_large_pages(0, bytes);
  return whole;
}

void HostMemory::prefer_large_pages(int64_t offset, int64_t bytes) {
  if (bytes > 0) madvise(data_ + offset, static_cast<size_t>(bytes), MADV_HUGEPAGE);
}

HostMemory::~HostMemory() {
  if (data_) munmap(data_, static_cast<size_t>(size_));
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace pagedinfer
