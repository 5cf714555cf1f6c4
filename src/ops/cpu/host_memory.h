#pragma once

#include <cstdint>
#include <string_view>

namespace pagedinfer {

constexpr int64_t kPageBytes = 4096;

// Zeroed, page-aligned memory from the system. A page takes no memory until it is written.
class HostMemory {
 public:
  HostMemory() = default;
  // Throws Error, naming `what` the memory is for, if the system has none.
  HostMemory(int64_t bytes, std::string_view what);
  // The same, in large pages as far as the system has them, which are faster to read.
  static HostMemory of_large_pages(int64_t bytes, std::string_view what);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;

  // Faster to read in random order, but the first write to a large page takes all of it.
  // REQUIRES: `offset` is that of a page.
  void prefer_large_pages(int64_t offset, int64_t bytes);

  char* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace pagedinfer
