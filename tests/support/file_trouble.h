// Fault injection for FileCalls: one call fails.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>

#include "io/file_names.h"

namespace pagedinfer {

struct Killed {};

// Makes call number `at` fail in the given way. After a short write the next one fails.
class Trouble {
 public:
  enum class Kind { kNone, kKilled, kKilledInside, kRefused, kShort };

  Trouble(Kind kind, int at) : kind_(kind), state_(std::make_shared<State>(at)) {}

  FileCalls calls() const {
    FileCalls calls;
    calls.write = [*this](int fd, const void* data, size_t size) {
      return some(size, [&](size_t part) { return ::write(fd, data, part); });
    };
    calls.pwrite = [*this](int fd, const void* data, size_t size, off_t at) {
      return some(size, [&](size_t part) { return ::pwrite(fd, data, part, at); });
    };
    calls.fdatasync = [*this](int) { return due() ? refuse(EIO) : 0; };
    calls.ftruncate = [*this](int fd, off_t size) {
      return due() ? refuse(EIO) : ::ftruncate(fd, size);
    };
    calls.close = [*this](int fd) {
      const bool fails = due();
      ::close(fd);
      return fails ? refuse(EIO) : 0;
    };
    calls.rename = [*this](const char* from, const char* to) {
      return due() ? refuse(EIO) : ::rename(from, to);
    };
    calls.unlink = [*this](const char* path) { return due() ? refuse(EROFS) : ::unlink(path); };
    return calls;
  }
  bool happened() const { return state_->left <= 0; }

 private:
  struct State {
    explicit State(int at) : left(at) {}
    int left;
    bool refuses = false;  // the next write after a short one fails
  };

  bool due() const { return kind_ != Kind::kNone && --state_->left == 0; }
  int refuse(int error) const {
    if (kind_ == Kind::kKilled || kind_ == Kind::kKilledInside) throw Killed();
    errno = error;
    return -1;
  }
  ssize_t some(size_t size, const std::function<ssize_t(size_t)>& write) const {
    if (state_->refuses) return refuse(ENOSPC);
    if (!due()) return write(size);
    if (kind_ == Kind::kKilledInside) write(size / 2);
    if (kind_ != Kind::kShort) return refuse(ENOSPC);
    state_->refuses = true;
    return write(size / 2);
  }

  Kind kind_;
  std::shared_ptr<State> state_;
};

}  // namespace pagedinfer
