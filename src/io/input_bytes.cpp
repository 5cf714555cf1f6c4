#include "io/input_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "core/error.h"
#include "io/open_file.h"

namespace pagedinfer {

namespace {

// Waits until `fd` is readable. False if `stop_fd` is, which takes precedence.
bool wait_for_input(int fd, int stop_fd) {
  pollfd fds[] = {{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};  // a negative descriptor is ignored
  while (poll(fds, 2, -1) < 0) {
    if (errno != EINTR) return true;  // read() will report the error
  }
  return fds[1].revents == 0;
}

}  // namespace

InputBytes::InputBytes(const std::string& path, int stop_fd)
    : name_(path == "-" ? "standard input" : path), stop_fd_(stop_fd) {
  // O_NONBLOCK: open() of a named pipe without a writer would wait, and stop_fd could not end that.
  // Reads wait in poll().
  fd_ = path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw cannot_open(name_, errno);
  if (fstat(fd_, &at_open_) != 0 || S_ISDIR(at_open_.st_mode)) {
    const int error = S_ISDIR(at_open_.st_mode) ? EISDIR : errno;
    if (fd_ != STDIN_FILENO) close(fd_);
    throw cannot_read(name_, error);
  }
  if (S_ISREG(at_open_.st_mode)) size_at_open_ = at_open_.st_size - lseek(fd_, 0, SEEK_CUR);
}

InputBytes::~InputBytes() {
  if (fd_ != STDIN_FILENO) close(fd_);
}

bool InputBytes::has_changed() const {
  struct stat now = {};
  if (!S_ISREG(at_open_.st_mode) || fstat(fd_, &now) != 0) return false;
  const timespec before = at_open_.st_mtim, after = now.st_mtim;
  return before.tv_sec != after.tv_sec || before.tv_nsec != after.tv_nsec ||
         at_open_.st_size != now.st_size;
}

std::optional<double> InputBytes::share_read(int64_t unread) const {
  if (size_at_open_ == 0 || num_given_ == 0) return std::nullopt;
  const double used = static_cast<double>(unpacker_ ? unpacker_->used() : num_read_);
  const double part = static_cast<double>(num_given_ - unread) / static_cast<double>(num_given_);
  return std::min(1., used / static_cast<double>(size_at_open_) * part);
}

bool InputBytes::has_more_soon() const {
  constexpr int kMomentMs = 100;
  if (is_file() || (unpacker_ && unpacker_->has_unread())) return true;
  pollfd fds[] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  return poll(fds, 2, kMomentMs) > 0;
}

int64_t InputBytes::read(char* data, int64_t size) {
  const int64_t count = unpack(data, size);
  num_given_ += count;
  return count;
}

int64_t InputBytes::unpack(char* data, int64_t size) {
  if (!begun_) {
    const int64_t count = begin(data, size);
    if (!unpacker_) return count;
  }
  if (!unpacker_) return read_file(data, size);
  const int64_t count = unpacker_->read(data, size);
  if (count == 0 && !stopped_) unpacker_->check_whole();
  return count;
}

// Reads enough bytes to see whether the data are compressed.
int64_t InputBytes::begin(char* data, int64_t size) {
  begun_ = true;
  int64_t count = 0;
  const auto bytes = [&] { return std::string_view(data, static_cast<size_t>(count)); };
  do {
    const int64_t more = read_file(data + count, size - count);
    if (more == 0) break;
    count += more;
  } while (packing_of_data(bytes(), false) != packing_of_data(bytes()));
  if (stopped_) return 0;
  const PackingForm* const claimed = packing_of_name(name_);
  if (const PackingForm* const form = packing_of_data(bytes())) {
    unpacker_ = std::make_unique<Unpacker>(
        *form, name_, bytes(), [this](char* to, int64_t room) { return read_file(to, room); });
  } else if (claimed != nullptr) {
    throw Error(fmt::format("{}: expected {} data, as its name says; found {}", name_,
                            claimed->name, count == 0 ? "nothing" : "other data"));
  }
  return count;
}

int64_t InputBytes::read_file(char* data, int64_t size) {
  for (;;) {
    if (!wait_for_input(fd_, stop_fd_)) {
      stopped_ = true;
      return 0;
    }
    const ssize_t count = ::read(fd_, data, static_cast<size_t>(size));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) throw cannot_read(name_, errno);
    num_read_ += count;
    if (count == 0 && num_read_ < size_at_open_) {
      throw Error(fmt::format("{}: ends at byte {}, had {} when it was opened: it was truncated",
                              name_, num_read_, size_at_open_));
    }
    return count;
  }
}

}  // namespace pagedinfer
