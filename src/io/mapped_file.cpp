#include "io/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "io/open_file.h"

namespace pagedinfer {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  OpenFile file(path);
  struct stat status = {};
  if (::fstat(file.fd, &status) != 0) throw cannot_read(path, errno);
  const auto size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  // mmap() refuses to map 0 bytes, but an empty file is no error.
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) {
    throw Error(fmt::format("{}: cannot map: {}", path, std::strerror(errno)));
  }
  bytes_ = {static_cast<const std::byte*>(data), size};
  fd_ = file.release();
}

MappedFile MappedFile::zeros(size_t bytes) {
  MappedFile memory;
  if (bytes == 0) return memory;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(fmt::format("no {} bytes of memory: {}", bytes, std::strerror(errno)));
  }
  memory.bytes_ = {static_cast<const std::byte*>(data), bytes};
  return memory;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::give_back(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + part.size()) / page * page;
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

void MappedFile::read_ahead(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t aligned = begin / page * page;
  // A hint: if it fails, the pages are read when they are touched.
  (void)::madvise(reinterpret_cast<void*>(aligned), part.size() + (begin - aligned), MADV_WILLNEED);
}

}  // namespace pagedinfer
