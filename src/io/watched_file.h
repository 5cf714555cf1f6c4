#pragma once

#include <cstdint>
#include <string>

#include "io/mapped_file.h"

namespace pagedinfer {

// Notices changes of the bytes of a mapped file. A check costs one system call; bytes are read
// again only if size or time have changed. Follows the file, not its name: a file that is renamed,
// removed or replaced keeps its bytes.
class WatchedFile {
 public:
  // REQUIRES: `file` is not of zeros; its mapping outlives this. Throws Error if it cannot be read.
  explicit WatchedFile(const MappedFile& file);

  const std::string& path() const { return path_; }
  // The file's size and a hash of samples, from the time of construction. The header of a
  // safetensors file is hashed as a whole; weights of another training differ everywhere, so
  // samples tell them apart.
  const std::string& identity() const { return identity_; }
  // Throws Error if it has another identity now, or cannot be read.
  void check();

 private:
  struct Stamp {
    int64_t size = 0;
    int64_t changed = 0;  // nanoseconds since 1970; no program can set it
    // A file may change again within one tick of the clock that gives it its time. So an equal
    // stamp proves nothing unless it was older than that when it was taken.
    bool is_settled = false;
  };

  Stamp stamp_now() const;
  std::string identity_now(int64_t size) const;

  std::string path_;
  int fd_;  // of the mapping
  Stamp stamp_;
  std::string identity_;
};

}  // namespace pagedinfer
