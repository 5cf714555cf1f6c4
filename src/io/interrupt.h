#pragma once

namespace pagedinfer {

// Thrown by throw_if_happened() where a job can end at once: before it has changed a file, or while
// it only reads its input again.
struct Interrupted {};

// Handles signals while it exists. The first SIGINT, SIGTERM or SIGHUP (unless SIGHUP was ignored
// before) sets a flag, a second one ends the process at once with code 130. SIGPIPE and SIGXFSZ are
// ignored, so that a write fails instead. SIGBUS of a mapped file ends the process with a sentence
// and code 1. REQUIRES: one object at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const;
  void throw_if_happened() const;  // throws Interrupted

  // A descriptor that becomes readable with the first signal, and when raise() is called; lower()
  // undoes raise(), so that the next run waits for its input.
  int fd() const;
  void raise();
  void lower();
  // Waits so long, or until fd() is readable.
  void sleep(double seconds) const;
};

}  // namespace pagedinfer
