#pragma once

namespace pagedinfer {

// While one lives, the first SIGINT or SIGTERM is noted and a second one ends the process at
// once with code 130. SIGPIPE and SIGXFSZ are ignored: a write then fails instead. One at a
// time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const;

  // Becomes readable with the signal, and when raise() is called.
  int fd() const;
  void raise();
};

}  // namespace pagedinfer
