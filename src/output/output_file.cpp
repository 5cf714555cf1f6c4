#include "output/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/refusal.h"
#include "io/file_names.h"

namespace pagedinfer {

namespace {

constexpr size_t kPendingBytes = 1 << 20;  // append() flushes when this much is pending

std::string text_of(const char* verb, const std::string& name, int error) {
  const char* const why = error == ENOSPC   ? "the disk is full"
                          : error == EDQUOT ? "the disk quota is used up"
                          : error == EFBIG  ? "the file would be longer than the system allows"
                                            : std::strerror(error);
  return fmt::format("{}: cannot {}: {}", error == ENAMETOOLONG ? shortened(name) : name, verb,
                     why);
}

// Takes the lock if locks are supported. Returns why it could not be taken; null if it was taken.
const char* fault_of_lock(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return "another run is writing it";
  struct stat locked = {};
  const bool is_gone = fstat(fd, &locked) == 0 && locked.st_nlink == 0;
  return is_gone ? "another run has just removed it" : nullptr;
}

// Whether fresh() could have made a file of this name.
bool is_fresh_name(std::string_view name, std::string_view prefix) {
  constexpr std::string_view kDigits = "0123456789";
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const size_t dash = name.find('-', 1);
  return name.starts_with('-') && dash != name.npos && dash > 1 && dash + 1 < name.size() &&
         name.substr(1, dash - 1).find_first_not_of(kDigits) == name.npos &&
         name.substr(dash + 1).find_first_not_of(kDigits) == name.npos;
}

bool is_regular_file(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

OutputFile::Opened OutputFile::open_for_writing(const std::string& path, Existing existing,
                                                int open_pipe) {
  if (is_standard_output(path)) return {.fd = STDOUT_FILENO, .is_stream = true};
  if (open_pipe >= 0) {
    const int fd = fcntl(open_pipe, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (fd < 0) throw Error(text_of("open for writing", path, errno));
    return {.fd = fd};
  }
  const auto open_with = [&](int flags) { return open(path.c_str(), flags | O_CLOEXEC, 0666); };

  const int append = existing == Existing::kAppend ? O_APPEND : 0;
  Opened opened = {.fd = open_with((append ? O_WRONLY : O_RDWR) | O_CREAT | O_EXCL | append)};
  opened.is_new = opened.fd >= 0;
  if (opened.fd < 0 && errno == EEXIST) {
    struct stat status = {};
    const bool found = stat(path.c_str(), &status) == 0;
    if (append || (found && !S_ISREG(status.st_mode))) {
      opened.fd = open_with(O_WRONLY | O_CREAT | append);
    } else if (existing != Existing::kRefuse) {
      opened.fd = open_with(O_RDWR | O_CREAT | (existing == Existing::kKeepOwn ? O_NOFOLLOW : 0));
      opened.replaces = existing == Existing::kReplace;
    } else {
      throw Error(fmt::format("{}: the file exists; --overwrite replaces it", path));
    }
  }
  if (opened.fd < 0) throw Error(text_of("open for writing", path, errno));
  return opened;
}

OutputFile::OutputFile(Opened opened, std::string name, FileCalls calls)
    : name_(std::move(name)),
      fd_(opened.fd),
      calls_(std::move(calls)),
      regular_(!opened.is_stream && is_regular_file(opened.fd)),
      is_new_(opened.is_new),
      replaces_(opened.replaces) {}

OutputFile::OutputFile(const std::string& path, Existing existing, FileCalls calls, int open_pipe)
    : OutputFile(open_for_writing(path, existing, open_pipe),
                 is_standard_output(path) ? "standard output" : path, std::move(calls)) {
  alone_ = regular_ && existing != Existing::kAppend;
  if (existing == Existing::kAppend && regular_) end_last_line(path);
  if ((existing == Existing::kKeep || existing == Existing::kKeepOwn) && regular_) {
    flushed_ = lseek(fd_, 0, SEEK_END);
    synced_ = flushed_ == 0;  // the earlier writer may not have synced
  }
}

OutputFile OutputFile::temporary() {
  std::error_code ignored;
  auto folder = std::filesystem::temp_directory_path(ignored);
  if (folder.empty()) folder = "/tmp";
  std::string path = (folder / "pagedinfer-XXXXXX").string();
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) throw Error(text_of("make a temporary file", path, errno));
  unlink(path.c_str());
  return OutputFile({.fd = fd}, "temporary file " + path, {});
}

OutputFile OutputFile::fresh(const std::string& prefix, FileCalls calls) {
  constexpr int kTries = 1000;
  for (int i = 0;; ++i) {
    std::string path = fmt::format("{}-{}-{}", prefix, getpid(), i);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && (errno != EEXIST || i == kTries)) throw Error(text_of("make", path, errno));
    if (fd < 0) continue;
    if (fault_of_lock(fd) == nullptr) {
      return OutputFile({.fd = fd, .is_new = true}, std::move(path), std::move(calls));
    }
    ::close(fd);  // another process took our file for a dead one's
  }
}

void OutputFile::remove_dead(const std::string& prefix, const FileCalls& calls,
                             const std::function<bool(const std::string& path)>& is_kept) {
  const std::filesystem::path begin(prefix);
  const std::string folder = begin.has_parent_path() ? begin.parent_path().string() : ".";
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = (begin.parent_path() / it->path().filename()).string();
    if (!is_fresh_name(it->path().filename().string(), begin.filename().string())) continue;
    const OpenFile file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.fd < 0 || !is_regular_file(file.fd) || is_kept(path)) continue;
    if (flock(file.fd, LOCK_EX | LOCK_NB) == 0) calls.unlink(path.c_str());
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::exchange(other.fd_, -1)),
      calls_(std::move(other.calls_)),
      regular_(other.regular_),
      alone_(other.alone_),
      is_new_(other.is_new_),
      replaces_(other.replaces_),
      begun_(other.begun_),
      synced_(other.synced_),
      sync_error_(other.sync_error_),
      flushed_(other.flushed_),
      pending_(std::move(other.pending_)) {}

OutputFile::~OutputFile() {
  if (fd_ <= STDERR_FILENO) return;
  if (is_new_ && !begun_) unlink(name_.c_str());  // before close() gives up the lock
  ::close(fd_);
}

void OutputFile::append(std::string_view bytes) {
  if (pending_.size() >= kPendingBytes) flush();
  pending_ += bytes;
}

// Truncates a file that is to be replaced.
void OutputFile::begin() {
  if (begun_) return;
  if (replaces_) {
    if (calls_.ftruncate(fd_, 0) != 0) throw Error(text_of("truncate", name_, errno));
    synced_ = false;
  }
  begun_ = true;
}

void OutputFile::check_contents() const {
  struct stat status = {};
  if (!alone_ || fstat(fd_, &status) != 0) return;
  if (status.st_nlink == 0) throw Error(name_ + ": was removed while it was written");
  if (status.st_size == flushed_) return;
  throw Error(fmt::format(
      "{}: has {} bytes, expected the {} that were written; another program has {}", name_,
      status.st_size, flushed_, status.st_size < flushed_ ? "truncated it" : "written to it"));
}

void OutputFile::check_name() const {
  struct stat ours = {}, there = {};
  if (!alone_ || fstat(fd_, &ours) != 0) return;
  if (stat(name_.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
      ours.st_ino == there.st_ino) {
    return;
  }
  throw Error(fmt::format("{}: is not the file any more that was written; another program has {}",
                          name_, ours.st_nlink == 0 ? "removed it" : "renamed or replaced it"));
}

void OutputFile::flush() {
  begin();
  check_contents();
  size_t done = 0;
  int error = 0;
  while (done < pending_.size() && error == 0) {
    const ssize_t count = calls_.write(fd_, pending_.data() + done, pending_.size() - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (done > 0) synced_ = false;
  flushed_ += static_cast<int64_t>(done);
  pending_.erase(0, done);
  if (error == EPIPE) throw ClosedPipe(name_ + ": the reader has closed it");
  if (error != 0) throw Error(text_of("write", name_, error));
}

void OutputFile::read_at(int64_t offset, char* data, int64_t size) const {
  const ssize_t count = pagedinfer::read_at(fd_, offset, data, static_cast<size_t>(size));
  if (count < 0) throw Error(text_of("read back", name_, errno));
  if (count < size) {
    throw Error(fmt::format("{}: cannot read back: {} bytes, expected {}", name_, offset + count,
                            offset + size));
  }
}

void OutputFile::write_at(int64_t offset, std::string_view bytes) {
  synced_ = false;
  while (!bytes.empty()) {
    const ssize_t count = calls_.pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(text_of("write", name_, errno));
    offset += count;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void OutputFile::cut(int64_t size) {
  pending_.clear();
  if (flushed_ <= size) return;
  if (calls_.ftruncate(fd_, size) != 0 || lseek(fd_, size, SEEK_SET) != size) {
    throw Error(text_of("truncate", name_, errno));
  }
  synced_ = false;
  flushed_ = size;
}

void OutputFile::sync() {
  if (!regular_ || synced_) return;
  if (sync_error_ != 0) throw Error(text_of("sync", name_, sync_error_));
  // EINVAL: the file system does not support syncing.
  while (calls_.fdatasync(fd_) != 0 && errno != EINVAL) {
    if (errno == EINTR) continue;
    sync_error_ = errno;
    throw Error(text_of("sync", name_, sync_error_));
  }
  synced_ = true;
}

void OutputFile::close() {
  flush();
  if (fd_ > STDERR_FILENO && calls_.close(std::exchange(fd_, -1)) != 0) {
    throw Error(text_of("write", name_, errno));
  }
}

void OutputFile::lock() const {
  if (const char* const fault = fault_of_lock(fd_)) {
    throw Error(fmt::format("{}: {}", name_, fault));
  }
}

OpenFile OutputFile::keep_lock() const {
  return OpenFile(fcntl(fd_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

void OutputFile::end_last_line(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char last = '\n';
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n') append("\n");
  ::close(fd);
}

}  // namespace pagedinfer
