#pragma once

#include <unistd.h>

#include <string>

#include "core/error.h"

namespace pagedinfer {

// What to throw when the system has refused to open `path`, or to read what it names.
Error cannot_open(const std::string& path, int error);
Error cannot_read(const std::string& name, int error);

// A file that is only read; closed in the end.
struct OpenFile {
  // Takes a descriptor; below 0 there is none.
  explicit OpenFile(int opened) : fd(opened) {}
  // Opens a regular file, and waits for nothing whatever the name stands for. Throws Error that
  // says why it cannot be read: it is missing, forbidden, a loop of links, a folder, a pipe.
  explicit OpenFile(const std::string& path);
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const int fd;
};

// Whether there is something of that name. Throws Error for a link to nothing and for what may not
// be looked at: to go on as if nothing were there would be wrong.
bool file_exists(const std::string& path);

}  // namespace pagedinfer
