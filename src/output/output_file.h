#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "io/file_names.h"
#include "io/open_file.h"

namespace pagedinfer {

// The reader of a pipe has closed it (EPIPE).
struct ClosedPipe : Error {
  using Error::Error;
};

// A file that is being written. append() buffers; flush() writes the buffer, in one system call if
// possible. All writes of this folder go through this class. Every function throws Error naming the
// file if a system call fails. REQUIRES: the process ignores SIGPIPE.
class OutputFile {
 public:
  // What to do with an existing regular file. Devices, pipes and standard output are written to in
  // any case.
  enum class Existing : uint8_t {
    kRefuse,   // throw Error
    kReplace,  // truncate it at the first flush(), not before
    kKeep,     // continue after its last byte
    kKeepOwn,  // the same; throw Error if it is a symbolic link
    kAppend,  // open with O_APPEND, because others may append too; complete an incomplete last line
  };

  // Opens or creates the file. If `open_pipe` is not negative, it is the descriptor of `path` that
  // wait_for_reader() returned; then the file writes to a duplicate of it.
  OutputFile(const std::string& path, Existing existing, FileCalls calls = {}, int open_pipe = -1);
  // A file without a name, which is gone when it is closed.
  static OutputFile temporary();
  // A new, locked file named PREFIX-PID-N.
  static OutputFile fresh(const std::string& prefix, FileCalls calls = {});
  // Removes files that fresh() made in processes that have died, which means that no process holds
  // the lock. Keeps files for which `is_kept` is true, and all files if locks are not supported.
  static void remove_dead(const std::string& prefix, const FileCalls& calls,
                          const std::function<bool(const std::string& path)>& is_kept);

  // Closes the file without flushing. Removes a file that was created and never flushed.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // Buffers `bytes`. May flush the buffer first.
  void append(std::string_view bytes);
  // Hands the buffer to the system. Throws Error before it writes if another program has written to
  // the file, truncated or removed it.
  void flush();
  // Reads bytes that were flushed. REQUIRES: the file is regular and was not opened with kAppend.
  void read_at(int64_t offset, char* data, int64_t size) const;
  // Writes bytes at once, without the buffer. REQUIRES: they replace flushed bytes, or nothing is
  // ever appended to the file.
  void write_at(int64_t offset, std::string_view bytes);
  // Drops the buffer and truncates the file to `size` bytes if it is longer.
  void cut(int64_t size);
  // Calls fdatasync() after the last flush; no-op unless the file is regular. After a failed sync
  // the durable state is unknown, so every later sync() throws too.
  void sync();
  // Flushes and closes.
  void close();
  // Throws Error if the file was renamed, removed or replaced.
  void check_name() const;
  // Takes an exclusive lock that is held until the file is closed or the process ends. Throws Error
  // if another run holds it or has just removed the file. No-op if locks are not supported.
  void lock() const;
  // Returns another descriptor of the file. While it is open, close() does not release the lock.
  OpenFile keep_lock() const;

  const std::string& name() const { return name_; }
  bool is_new() const { return is_new_; }       // created by us
  bool is_regular() const { return regular_; }  // false for standard output, even if it is a file
  bool is_synced() const { return synced_; }
  int64_t size() const { return flushed_ + static_cast<int64_t>(pending_.size()); }
  int64_t flushed() const { return flushed_; }
  std::string_view pending() const { return pending_; }  // bytes that follow flushed()

 private:
  struct Opened {
    int fd;
    bool is_new = false;
    bool replaces = false;   // truncated at the first flush
    bool is_stream = false;  // standard output
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
  bool alone_ = false;  // a named file to which no other program may write
  bool is_new_ = false, replaces_ = false, begun_ = false;
  bool synced_ = true;
  int sync_error_ = 0;  // of the sync that failed
  int64_t flushed_ = 0;
  std::string pending_;
};

}  // namespace pagedinfer
