#include "io/standard_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"

namespace pagedinfer {
namespace {

// Opens `fd` on /dev/null if it is closed; returns whether it was open. REQUIRES: all lower
// descriptors are open, so that open() returns this one.
bool open_if_closed(int fd) {
  if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return true;
  // Ignores a failure, as there is no way to report it.
  static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY));
  return false;
}

void check_open(std::string_view flag, std::string_view path, std::string_view stream,
                bool was_open) {
  if (path != "-" || was_open) return;
  throw Error(
      fmt::format("{} -: standard {} is closed; expected an open one, or a file", flag, stream));
}

}  // namespace

void StandardFiles::check_input(std::string_view flag, std::string_view path) const {
  check_open(flag, path, "input", input);
}

void StandardFiles::check_output(std::string_view flag, std::string_view path) const {
  check_open(flag, path, "output", output);
}

StandardFiles open_standard_files() {
  StandardFiles were_open;
  were_open.input = open_if_closed(STDIN_FILENO);
  were_open.output = open_if_closed(STDOUT_FILENO);
  open_if_closed(STDERR_FILENO);
  return were_open;
}

}  // namespace pagedinfer
