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
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Tells the system that `part` of bytes() is about to be read.
  static void read_ahead(std::span<const std::byte> part);

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace pagedinfer
