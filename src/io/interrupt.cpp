#include "io/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>

#include "core/check.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "io/bus_error.h"

namespace pagedinfer {
namespace {

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
