#include "io/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/refusal.h"

namespace pagedinfer {

Error cannot_open(const std::string& path, int error) {
  char target[PATH_MAX];
  const ssize_t size = error == ENOENT ? readlink(path.c_str(), target, sizeof target) : -1;
  if (size >= 0) {
    return Error(fmt::format("{}: cannot open: it is a link to '{}', which is not there", path,
                             shortened({target, static_cast<size_t>(size)})));
  }
  const std::string name = error == ENAMETOOLONG ? shortened(path) : path;
  return Error(fmt::format("{}: cannot open: {}", name, std::strerror(error)));
}

Error cannot_read(const std::string& name, int error) {
  return Error(fmt::format("{}: cannot read: {}", name, std::strerror(error)));
}

namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

int open_regular(const std::string& path) {
  // O_NONBLOCK: open() of a pipe without a writer would wait.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw cannot_open(path, errno);
  struct stat status = {};
  const int failed = fstat(fd, &status) != 0 ? errno : 0;
  if (failed == 0 && S_ISREG(status.st_mode)) return fd;
  close(fd);
  if (failed != 0) throw cannot_open(path, failed);
  throw Error(
      fmt::format("{}: cannot read: it is {}, not a regular file", path, kind_of(status.st_mode)));
}

// A descriptor, or below 0.
int open_with_reader(const std::string& path, int stop_fd) {
  constexpr int kPollMs = 20;  // the system does not notify a writer of a new reader
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return -1;
  for (;;) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) fcntl(fd, F_SETFL, 0);        // writes wait for the reader
    if (fd >= 0 || errno != ENXIO) return fd;  // the caller's own open() reports other errors
    pollfd stop = {stop_fd, POLLIN, 0};
    if (poll(&stop, 1, kPollMs) > 0) return -1;
  }
}

}  // namespace

OpenFile::OpenFile(const std::string& path) : fd(open_regular(path)) {}

ssize_t read_at(int fd, int64_t offset, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, data + done, size - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

bool file_exists(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) return true;
  const int error = errno;
  const bool is_missing = error == ENOENT || error == ENOTDIR;
  if (is_missing && lstat(path.c_str(), &status) != 0) return false;
  throw cannot_open(path, error);
}

OpenFile wait_for_reader(const std::string& path, int stop_fd) {
  return OpenFile(open_with_reader(path, stop_fd));
}

}  // namespace pagedinfer
