#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace pagedinfer {

// A file's bytes, read-only, in memory as they are touched.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws Error
  // Not a file, but so many bytes of zeros that may be written; they take memory as they are
  // touched. Throws Error.
  static MappedFile zeros(size_t bytes);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Tells the system that `part` of bytes() is about to be read.
  static void read_ahead(std::span<const std::byte> part);

 private:
  MappedFile() = default;

  std::span<const std::byte> bytes_;
};

}  // namespace pagedinfer
