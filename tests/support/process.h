// Runs a program and deals with it through its standard streams and signals.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// What is left of a program.
struct Ended {
  int exit_code = -1;  // 128 and more: the signal that ended it
  std::string out = {}, err = {};
  int64_t peak_memory = 0;  // the most bytes it had in memory whenever we looked
  bool timed_out = false;   // it was still there at the limit, and was killed
};

// A program that runs. Whatever is waited for, its streams flow meanwhile, so that neither side
// waits for the other. It is killed when it takes longer than the limit, and at the end.
class Process {
 public:
  enum class Stderr : uint8_t { kPipe, kTerminal };

  explicit Process(const std::vector<std::string>& command, Stderr err = Stderr::kPipe,
                   std::chrono::seconds limit = std::chrono::seconds(300));
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void write(std::string_view text) { to_write_ += text; }
  // When all is written.
  void close_input() { input_complete_ = true; }
  // Its output is no longer read, but the other end stays.
  void hold_output() { held_ = true; }
  void release_output() { held_ = false; }
  // Closes the reading end.
  void close_output();
  void send(int signal) const;

  // Waits until `condition` holds; false if it never will, because the program has ended.
  bool wait_until(const std::function<bool()>& condition);
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  int64_t unread_output() const;  // bytes in the pipe, of held output

  Ended wait();

 private:
  // A file descriptor that is closed once.
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
  int64_t peak_memory_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

// Runs a program to its end.
Ended run_program(const std::vector<std::string>& command, std::string_view input = "");

}  // namespace pagedinfer
