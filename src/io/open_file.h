#pragma once

#include <unistd.h>

namespace pagedinfer {

// Closes a file that is only read.
struct OpenFile {
  explicit OpenFile(int opened) : fd(opened) {}
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const int fd;  // below 0: it could not be opened
};

}  // namespace pagedinfer
