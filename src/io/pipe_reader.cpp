#include "io/pipe_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <cerrno>

namespace pagedinfer {
namespace {

constexpr int kLookEveryMs = 20;  // the system tells nobody that a reader has come

// A descriptor, or below 0.
int open_with_reader(const std::string& path, int stop_fd) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return -1;
  for (;;) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) fcntl(fd, F_SETFL, 0);        // writes wait for the reader
    if (fd >= 0 || errno != ENXIO) return fd;  // whoever opens it next says what is wrong
    pollfd stop = {stop_fd, POLLIN, 0};
    if (poll(&stop, 1, kLookEveryMs) > 0) return -1;
  }
}

}  // namespace

OpenFile wait_for_reader(const std::string& path, int stop_fd) {
  return OpenFile(open_with_reader(path, stop_fd));
}

}  // namespace pagedinfer
