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

  // Opens or makes the file; "-" is standard output. What it holds is replaced at the first
  // flush(); until then nothing has changed, but for a file that is there and empty. A device or a
  // pipe holds nothing that could be lost and is never refused. Appending to a file whose last
  // line has no end gives it one.
  OutputFile(const std::string& path, Existing existing);
  // A file without a name that is gone when it is closed.
  static OutputFile temporary();

  // Closes it; what was not flushed is dropped, and a file that was made and never flushed is
  // removed.
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
  struct Opened {
    int fd;
    bool is_new = false;    // made by us
    bool replaces = false;  // holds what the first flush replaces
  };

  OutputFile(Opened opened, std::string name);
  static Opened open_for_writing(const std::string& path, Existing existing);
  void begin();
  void end_last_line(const std::string& path);

  std::string name_;
  int fd_;
  bool regular_ = false;
  bool is_new_ = false, replaces_ = false, begun_ = false;
  int64_t flushed_ = 0;
  std::string pending_;
};

}  // namespace pagedinfer
