#include "cli/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace pagedinfer {
namespace {

// Whether it was open. REQUIRES: all below are, so that it is the one that open() gives.
bool open_if_closed(int fd) {
  if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return true;
  // Nothing helps where even this fails: what is opened next is not ours to lose.
  static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY));
  return false;
}

}  // namespace

StandardFiles open_standard_files() {
  StandardFiles were_open;
  were_open.input = open_if_closed(STDIN_FILENO);
  were_open.output = open_if_closed(STDOUT_FILENO);
  open_if_closed(STDERR_FILENO);
  return were_open;
}

}  // namespace pagedinfer
