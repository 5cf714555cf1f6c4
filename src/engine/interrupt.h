#pragma once

namespace pagedinfer {

inline constexpr int kInterruptedCode = 130;  // the exit code

// Thrown where an interrupted job has nothing to finish.
struct Interrupted {};

// While one lives, the first SIGINT, SIGTERM or SIGHUP (unless that was ignored before) is noted
// and a second one ends the process at once with code 130. SIGPIPE and SIGXFSZ are ignored: a write
// then fails instead. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const;
  void throw_if_happened() const;  // Interrupted

  // Becomes readable with the signal, and when raise() is called.
  int fd() const;
  void raise();
};

}  // namespace pagedinfer
