#include "io/bus_error.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/exit_codes.h"

namespace pagedinfer {
namespace {

// All threads read the same weights: only the first one that fails prints the message.
std::atomic_flag has_explained = ATOMIC_FLAG_INIT;

// The code below runs in a signal handler, so it allocates no memory.
class Characters {
 public:
  explicit Characters(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Characters() {
    if (fd_ >= 0) close(fd_);
  }
  Characters(const Characters&) = delete;
  Characters& operator=(const Characters&) = delete;

  // -1 at the end.
  int next() {
    if (next_ == size_) {
      next_ = 0;
      size_ = fd_ < 0 ? 0 : read(fd_, buffer_, sizeof buffer_);
      if (size_ <= 0) return size_ = 0, -1;
    }
    return static_cast<unsigned char>(buffer_[next_++]);
  }

 private:
  const int fd_;
  char buffer_[1024];
  ssize_t next_ = 0, size_ = 0;
};

int digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Writes into `path` the name of the file that is mapped at the address, as much of it as there is
// room for. Returns its length, 0 if there is none. The system has a line for each mapping:
//
//   7f0c2a000000-7f0c2a1f3000 r--p 00000000 08:01 1835023        /models/a/model.safetensors
size_t file_at(uintptr_t address, char* path, size_t room) {
  Characters maps("/proc/self/maps");
  for (int c = maps.next(); c >= 0; c = maps.next()) {
    uintptr_t ends[2] = {};
    for (uintptr_t& end : ends) {
      for (; digit(c) >= 0; c = maps.next()) end = end * 16 + static_cast<uintptr_t>(digit(c));
      c = maps.next();
    }
    const bool is_inside = ends[0] <= address && address < ends[1];
    while (c >= 0 && c != '\n' && c != '/') c = maps.next();
    size_t size = 0;
    for (; c >= 0 && c != '\n'; c = maps.next()) {
      if (is_inside && size < room) path[size++] = static_cast<char>(c);
    }
    if (is_inside) return size;
  }
  return 0;
}

}  // namespace

void explain_bus_error(int signal, siginfo_t* info, void*) {
  constexpr char kBegin[] = "pagedinfer: ";
  constexpr char kEnd[] =
      ": cannot read a part of the file that was there before: another program has truncated it, "
      "or the disk has failed\n";
  constexpr size_t kBeginBytes = sizeof kBegin - 1, kEndBytes = sizeof kEnd - 1;
  char text[kBeginBytes + PATH_MAX + kEndBytes];
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const size_t size = info->si_code > 0 ? file_at(address, text + kBeginBytes, PATH_MAX) : 0;
  if (size == 0) {
    ::signal(signal, SIG_DFL);
    raise(signal);  // it comes when this handler has returned
    return;
  }
  if (has_explained.test_and_set()) {
    for (;;) pause();
  }
  std::memcpy(text, kBegin, kBeginBytes);
  std::memcpy(text + kBeginBytes + size, kEnd, kEndBytes);
  const ssize_t written = write(STDERR_FILENO, text, kBeginBytes + size + kEndBytes);
  static_cast<void>(written);  // the process ends in any case
  _exit(exit_code::kFailed);
}

}  // namespace pagedinfer
