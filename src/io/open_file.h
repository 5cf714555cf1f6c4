#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"

namespace pagedinfer {

// The Error to throw when open() or read() has failed with `error` (an errno value).
Error cannot_open(const std::string& path, int error);
Error cannot_read(const std::string& name, int error);

// Owns a file descriptor.
struct OpenFile {
  // Takes ownership of a descriptor; negative = none.
  explicit OpenFile(int opened) : fd(opened) {}
  // Opens a regular file for reading. Never blocks. Throws Error saying why it cannot be read: it
  // is missing, forbidden, a loop of links, a folder, a pipe.
  explicit OpenFile(const std::string& path);
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Gives up ownership.
  int release() { return std::exchange(fd, -1); }

  int fd;
};

// pread() that goes on after EINTR and after a short read. Returns the bytes read, fewer than
// `size` only at the end of the file, or -1 with errno.
[[nodiscard]] ssize_t read_at(int fd, int64_t offset, char* data, size_t size);

// Whether something has that name. Throws Error for a dangling link and if permissions forbid the
// answer, because false would be wrong.
bool file_exists(const std::string& path);

// If `path` names a pipe, waits until it has a reader or `stop_fd` is readable, and returns the
// pipe opened for writing; else returns no descriptor. Write to the returned descriptor: the reader
// may be gone before the pipe is opened a second time.
[[nodiscard]] OpenFile wait_for_reader(const std::string& path, int stop_fd);

}  // namespace pagedinfer
