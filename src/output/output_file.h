#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "io/file_calls.h"

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
  enum class Existing : uint8_t { kRefuse, kReplace, kKeep, kKeepOwn, kAppend };

  // Opens or makes the file. Standard output is a stream, whatever it leads to. What it holds is
  // replaced at the first flush(); until then nothing has changed, but for a file that is there and
  // empty. A device or a pipe holds nothing that could be lost and is never refused. kKeep goes on
  // behind what a file holds, and so does kKeepOwn, which follows no link; kAppend is for files
  // that others may append to as well, and gives a last line without an end one.
  // `open_pipe`, unless it is below 0, is what wait_for_reader() has opened of that name; a copy of
  // it is written to.
  OutputFile(const std::string& path, Existing existing, FileCalls calls = {}, int open_pipe = -1);
  // A file without a name that is gone when it is closed.
  static OutputFile temporary();
  // A file that nobody had, with a name that begins with `prefix`. Links are not followed.
  static OutputFile fresh(const std::string& prefix, FileCalls calls = {});

  // Closes it; what was not flushed is dropped, and a file that was made and never flushed is
  // removed.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // May flush what was appended before.
  void append(std::string_view bytes);
  // Throws Error, before it writes, if somebody else has written to the file, shortened or removed
  // it.
  void flush();
  // Reads what was flushed; the file must be regular and not opened with kAppend.
  void read_at(int64_t offset, char* data, int64_t size) const;
  // Overwrites bytes that were flushed, at once.
  void write_at(int64_t offset, std::string_view bytes);
  // Forgets what was not flushed, and of the rest all from `size` on.
  void cut(int64_t size);
  // Waits until what was flushed is on the disk; of other things than files nothing is asked.
  // After an Error nobody knows what is, whatever the system says to a second try: it fails too.
  void sync();
  void close();
  // Throws Error if the name does not lead to this file any more.
  void check_place() const;
  // Keeps other runs away until the file is closed, also by a crash. Throws Error if one is
  // there, or was and has removed the file; where the file system knows no locks, nothing happens.
  void lock() const;

  const std::string& name() const { return name_; }
  bool is_new() const { return is_new_; }       // made by us
  bool is_regular() const { return regular_; }  // a file, and not standard output
  bool is_synced() const { return synced_; }
  int64_t size() const { return flushed_ + static_cast<int64_t>(pending_.size()); }
  int64_t flushed() const { return flushed_; }
  std::string_view pending() const { return pending_; }  // from flushed() on

 private:
  struct Opened {
    int fd;
    bool is_new = false;
    bool replaces = false;   // holds what the first flush replaces
    bool is_stream = false;  // whatever it leads to
  };

  OutputFile(Opened opened, std::string name, FileCalls calls);
  static Opened open_for_writing(const std::string& path, Existing existing, int open_pipe);
  void begin();
  void check_contents() const;
  void end_last_line(const std::string& path);

  std::string name_;
  int fd_;
  FileCalls calls_;
  bool regular_ = false;
  bool alone_ = false;  // a file with a name that nobody else shall write to
  bool is_new_ = false, replaces_ = false, begun_ = false;
  bool synced_ = true;
  int sync_error_ = 0;  // of the sync that failed
  int64_t flushed_ = 0;
  std::string pending_;
};

}  // namespace pagedinfer
