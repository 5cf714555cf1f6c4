#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/gunzip.h"

namespace pagedinfer {

// The bytes of a file, a pipe or standard input, from the first to the last. Data that begin as
// gzip does are unpacked, whatever their name; a file whose name ends in .gz must be such data.
class InputBytes {
 public:
  // `path` "-" is standard input. When `stop_fd` is given and becomes readable, a wait for input
  // ends and the input with it. Throws Error if it cannot be opened.
  InputBytes(const std::string& path, int stop_fd);
  ~InputBytes();
  InputBytes(const InputBytes&) = delete;
  InputBytes& operator=(const InputBytes&) = delete;

  // Up to `size` bytes, which is 2 or more; 0 at the end, and when it was stopped. Throws Error
  // when they cannot be read or unpacked, or when a file has become shorter than it was.
  int64_t read(char* data, int64_t size);
  bool stopped() const { return stopped_; }
  // Whether bytes, or the end, are there within a moment.
  bool has_more_soon() const;
  // What share of a regular file was read for all bytes given so far but the last `unread`. Nothing
  // of other inputs, and before the first byte.
  std::optional<double> share_read(int64_t unread) const;
  // Whether it is all there, so that nobody waits for it.
  bool is_file() const { return S_ISREG(at_open_.st_mode); }
  // Whether somebody has written to the file since it was opened.
  bool has_changed() const;
  const std::string& name() const { return name_; }

 private:
  int64_t unpack(char* data, int64_t size);
  int64_t begin(char* data, int64_t size);
  int64_t read_file(char* data, int64_t size);

  const std::string name_;
  const int stop_fd_;
  int fd_ = -1;
  struct stat at_open_ = {};
  int64_t size_at_open_ = 0;  // of a regular file, what there was to read
  int64_t num_read_ = 0, num_given_ = 0;
  bool begun_ = false, stopped_ = false;
  std::unique_ptr<Gunzip> gunzip_;  // of data that are packed
};

}  // namespace pagedinfer
