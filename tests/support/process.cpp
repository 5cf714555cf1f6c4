#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace pagedinfer {
namespace {

constexpr int kLookEveryMs = 10;

void require(bool fine, const char* what) {
  if (!fine) throw std::runtime_error(std::string("process: ") + what);
}

// A pipe: its read end and its write end, both close-on-exec.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends = {};
  require(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  return ends;
}

std::array<int, 2> make_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  require(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0, "posix_openpt");
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  require(slave >= 0, "open the terminal");
  return {master, slave};
}

pid_t spawn(const std::vector<std::string>& command, int in, int out, int err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);

  // This process ignores SIGPIPE; the program starts with the default.
  signal(SIGPIPE, SIG_IGN);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  for (const int end : {in, out, err}) close(end);
  require(error == 0, "posix_spawn");
  return pid;
}

// Appends the bytes that can be read now; false at the end of the stream.
bool read_some(int fd, std::string& text) {
  char buffer[64 << 10];
  const ssize_t count = read(fd, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;  // a terminal ends with EIO
  text.append(buffer, static_cast<size_t>(count));
  return count > 0;
}

}  // namespace

void Process::Handle::close() {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

Process::Process(const std::vector<std::string>& command, Stderr err, std::chrono::seconds limit)
    : deadline_(std::chrono::steady_clock::now() + limit) {
  const std::array<int, 2> in_pipe = make_pipe(), out_pipe = make_pipe();
  const std::array<int, 2> err_pipe = err == Stderr::kPipe ? make_pipe() : make_terminal();
  stdin_.fd = in_pipe[1];
  stdout_.fd = out_pipe[0];
  stderr_.fd = err_pipe[0];
  fcntl(stdin_.fd, F_SETFL, O_NONBLOCK);
  pid_ = spawn(command, in_pipe[0], out_pipe[1], err_pipe[1]);
}

Process::~Process() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::close_output() { stdout_.close(); }

void Process::send(int signal) const { require(kill(pid_, signal) == 0, "kill"); }

int64_t Process::unread_output() const {
  int count = 0;
  require(ioctl(stdout_.fd, FIONREAD, &count) == 0, "FIONREAD");
  return count;
}

bool Process::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (streams_ended()) return condition();
    pump();
  }
  return true;
}

void Process::pump() {
  if (to_write_.empty() && input_complete_) stdin_.close();
  // poll() ignores negative descriptors.
  std::array<pollfd, 3> streams = {{{to_write_.empty() ? -1 : stdin_.fd, POLLOUT, 0},
                                    {held_ ? -1 : stdout_.fd, POLLIN, 0},
                                    {stderr_.fd, POLLIN, 0}}};
  poll(streams.data(), streams.size(), kLookEveryMs);
  look_at_memory();
  if (streams[0].revents != 0) {
    const ssize_t count = ::write(stdin_.fd, to_write_.data(), to_write_.size());
    if (count >= 0) {
      to_write_.erase(0, static_cast<size_t>(count));
    } else if (errno == EPIPE) {
      to_write_.clear();
      stdin_.close();
    }
  }
  if (streams[1].revents != 0 && !read_some(stdout_.fd, out_)) stdout_.close();
  if (streams[2].revents != 0 && !read_some(stderr_.fd, err_)) stderr_.close();
  if (!timed_out_ && std::chrono::steady_clock::now() > deadline_) {
    timed_out_ = true;
    kill(pid_, SIGKILL);
  }
}

// Not by wait4(), whose maximum includes the memory of this process at the fork.
void Process::look_at_memory() {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string word; status >> word;) {
    const bool is_peak = word == "VmHWM:";
    if (!is_peak && word != "RssAnon:") continue;
    int64_t kib = 0;
    status >> kib;
    int64_t& peak = is_peak ? peak_memory_ : peak_anonymous_;
    peak = std::max(peak, kib << 10);
  }
}

Ended Process::wait() {
  wait_until([] { return false; });
  int status = 0;
  const pid_t ended = waitpid(std::exchange(pid_, -1), &status, 0);
  require(ended > 0, "waitpid");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, std::move(out_), std::move(err_), peak_memory_, peak_anonymous_, timed_out_};
}

Ended run_program(const std::vector<std::string>& command, std::string_view input) {
  Process process(command);
  process.write(input);
  process.close_input();
  return process.wait();
}

}  // namespace pagedinfer
