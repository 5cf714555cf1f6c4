#include "io/interrupt.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>

#include "core/check.h"
#include "core/error.h"
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

// A handler of SIGBUS, for SA_SIGINFO. If the address lies in a mapped file, another program has
// cut off that page, or a disk has failed: the handler names the file and ends the process with
// code 1. Otherwise the signal ends the process as without a handler.
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

// Globals, because a signal handler gets no argument of ours.
volatile std::sig_atomic_t signal_happened = 0;
int event_fd = -1;
struct sigaction old_int, old_term, old_hup, old_pipe, old_size, old_bus;

void wake() {
  const uint64_t one = 1;
  const ssize_t written = write(event_fd, &one, sizeof one);
  static_cast<void>(written);  // the counter is full: it is readable already
}

void note(int) {
  if (signal_happened != 0) _exit(exit_code::kInterrupted);
  const int saved = errno;
  signal_happened = 1;
  wake();
  errno = saved;
}

}  // namespace

Interrupt::Interrupt() {
  CHECK(event_fd == -1);
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd < 0) throw Error(std::string("eventfd: ") + std::strerror(errno));
  signal_happened = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int);
  sigaction(SIGTERM, &action, &old_term);
  // nohup ignores SIGHUP, so that the run outlives its terminal.
  sigaction(SIGHUP, nullptr, &old_hup);
  if (old_hup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old_pipe);
  sigaction(SIGXFSZ, &ignore, &old_size);
  struct sigaction explain = {};
  explain.sa_sigaction = explain_bus_error;
  explain.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &explain, &old_bus);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
  sigaction(SIGHUP, &old_hup, nullptr);
  sigaction(SIGPIPE, &old_pipe, nullptr);
  sigaction(SIGXFSZ, &old_size, nullptr);
  sigaction(SIGBUS, &old_bus, nullptr);
  close(event_fd);
  event_fd = -1;
}

bool Interrupt::happened() const { return signal_happened != 0; }
void Interrupt::throw_if_happened() const {
  if (happened()) throw Interrupted();
}
int Interrupt::fd() const { return event_fd; }
void Interrupt::raise() { wake(); }
void Interrupt::lower() {
  uint64_t count = 0;
  const ssize_t taken = read(event_fd, &count, sizeof count);
  static_cast<void>(taken);          // nothing is taken where nothing was raised
  if (signal_happened != 0) wake();  // before, or while it was taken
}

void Interrupt::sleep(double seconds) const {
  constexpr double kMax = 86400;  // longer waits fit into no timespec
  const double bounded = std::clamp(seconds, 0.0, kMax);
  const double whole = std::floor(bounded);
  const timespec time = {.tv_sec = static_cast<time_t>(whole),
                         .tv_nsec = static_cast<long>((bounded - whole) * 1e9)};
  pollfd event = {.fd = event_fd, .events = POLLIN, .revents = 0};
  const int ready = ppoll(&event, 1, &time, nullptr);
  static_cast<void>(ready);  // the caller looks at the clock, and whether a signal came
}

}  // namespace pagedinfer
