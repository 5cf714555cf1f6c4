#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace pagedinfer {

// Nobody reads the other end any more.
struct ClosedPipe : Error {
  using Error::Error;
};

// A file that is written to: what is appended is collected and goes out at flush() in one system
// call where possible, whole pieces only. Every write of this folder goes through here. The
// process must ignore SIGPIPE. Throws Error naming the file when the system refuses.
class OutputFile {
 public:
  enum class Existing : uint8_t { kRefuse, kReplace, kAppend };

  // Opens or makes the file; "-" is standard output. A device or a pipe holds nothing that could
  // be lost and is never refused. Appending to a file whose last line has no end gives it one.
  OutputFile(const std::string& path, Existing existing);
  // A file without a name that is gone when it is closed.
  static OutputFile temporary();

  // Closes it; what was not flushed is dropped.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // May flush what was appended before.
  void append(std::string_view bytes);
  void flush();
  // Reads what was flushed; the file must be regular and not opened with kAppend.
  void read_at(int64_t offset, char* data, int64_t size) const;
  // Forgets everything appended.
  void clear();
  void close();

  bool is_regular() const { return regular_; }
  int64_t size() const { return flushed_ + static_cast<int64_t>(pending_.size()); }
  int64_t flushed() const { return flushed_; }
  std::string_view pending() const { return pending_; }  // from flushed() on

 private:
  OutputFile(int fd, std::string name);
  void end_last_line(const std::string& path);

  std::string name_;
  int fd_;
  bool regular_ = false;
  int64_t flushed_ = 0;
  std::string pending_;
};

}  // namespace pagedinfer
