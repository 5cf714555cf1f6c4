#pragma once

#include <unistd.h>

#include <cstdio>
#include <functional>

namespace pagedinfer {

// The system calls that change files. A test replaces them to make each of them fail.
struct FileCalls {
  std::function<ssize_t(int, const void*, size_t)> write = ::write;
  std::function<ssize_t(int, const void*, size_t, off_t)> pwrite = ::pwrite;
  std::function<int(int)> fdatasync = ::fdatasync;
  std::function<int(int)> fsync = ::fsync;  // of folders
  std::function<int(int, off_t)> ftruncate = ::ftruncate;
  std::function<int(int)> close = ::close;
  std::function<int(const char*, const char*)> rename = ::rename;
  std::function<int(const char*)> unlink = ::unlink;
};

}  // namespace pagedinfer
