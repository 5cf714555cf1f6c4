#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace pagedinfer {

// A read-only mapping of a file. Pages are read when they are touched, so changes by another
// program are seen. If that program has cut off a page, touching it raises SIGBUS (io/bus_error.h).
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws Error
  // An anonymous writable mapping of zeros instead of a file; pages take memory when they are
  // touched. Throws Error.
  static MappedFile zeros(size_t bytes);
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        bytes_(std::exchange(other.bytes_, {})) {}
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  const std::string& path() const { return path_; }
  // A descriptor of the mapped file, even if another file has its name now; -1 if there is none.
  int fd() const { return fd_; }
  // Asks the system to prefetch `part` of bytes().
  static void read_ahead(std::span<const std::byte> part);
  // Frees the whole pages of `part` of bytes(). If it is touched again, it is read again from the
  // file, or zero.
  static void give_back(std::span<const std::byte> part);

 private:
  MappedFile() = default;

  std::string path_;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
};

}  // namespace pagedinfer
