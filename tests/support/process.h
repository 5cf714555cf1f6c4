// Runs a program and communicates with it by its standard streams and signals.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// The result of a program that has ended.
struct Ended {
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string out = {}, err = {};
  int64_t peak_memory = 0;     // maximum resident bytes among the samples taken
  int64_t peak_anonymous = 0;  // the same without mapped files
  bool timed_out = false;      // it was killed at the time limit
};

// A running program. While a function waits, it keeps reading and writing the streams, so that the
// two sides never block each other. The program is killed at the time limit and by the destructor.
class Process {
 public:
  enum class Stderr : uint8_t { kPipe, kTerminal };

  explicit Process(const std::vector<std::string>& command, Stderr err = Stderr::kPipe,
                   std::chrono::seconds limit = std::chrono::seconds(300));
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void write(std::string_view text) { to_write_ += text; }
  // Closes its input after everything is written.
  void close_input() { input_complete_ = true; }
  // Stops reading its output without closing the pipe.
  void hold_output() { held_ = true; }
  void release_output() { held_ = false; }
  // Closes the pipe of its output.
  void close_output();
  void send(int signal) const;

  // Waits until `condition` holds; false if it never will, because the program has ended.
  bool wait_until(const std::function<bool()>& condition);
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  int64_t unread_output() const;  // bytes in the pipe while reading is stopped

  Ended wait();

 private:
  // Owns a file descriptor.
  struct Handle {
    int fd = -1;
    ~Handle() { close(); }
    void close();
  };

  bool streams_ended() const { return (held_ || stdout_.fd < 0) && stderr_.fd < 0; }
  void pump();
  void look_at_memory();

  pid_t pid_ = -1;
  Handle stdin_, stdout_, stderr_;
  std::string to_write_, out_, err_;
  bool input_complete_ = false, held_ = false, timed_out_ = false;
  int64_t peak_memory_ = 0, peak_anonymous_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

// Runs a program to its end.
Ended run_program(const std::vector<std::string>& command, std::string_view input = "");

}  // namespace pagedinfer
