#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/unpacker.h"

namespace pagedinfer {

// Reads a file, a pipe or standard input sequentially. Decompresses data of the forms in
// io/packing.h, which it knows by their first bytes, whatever the file's name. A file whose name
// ends like a form's must hold such data.
class InputBytes {
 public:
  // `path` "-" is standard input. Once `stop_fd` (-1 = none) is readable, the input ends: a waiting
  // read() returns 0. Throws Error if the input cannot be opened.
  InputBytes(const std::string& path, int stop_fd);
  ~InputBytes();
  InputBytes(const InputBytes&) = delete;
  InputBytes& operator=(const InputBytes&) = delete;

  // Reads up to `size` bytes; 0 at the end and after a stop. Throws Error on a read error, on
  // damaged compressed data, and if the file has been truncated. REQUIRES: size >= 4.
  int64_t read(char* data, int64_t size);
  bool stopped() const { return stopped_; }
  // Whether read() would return within 100 ms.
  bool has_more_soon() const;
  // The share (0 to 1) of a regular file that was read for all bytes returned so far, less the last
  // `unread` of them. nullopt for other inputs and before the first byte.
  std::optional<double> share_read(int64_t unread) const;
  bool is_file() const { return S_ISREG(at_open_.st_mode); }
  // Whether a regular file was modified since it was opened.
  bool has_changed() const;
  const std::string& name() const { return name_; }

 private:
  int64_t unpack(char* data, int64_t size);  // decompresses if needed
  int64_t begin(char* data, int64_t size);
  int64_t read_file(char* data, int64_t size);

  const std::string name_;
  const int stop_fd_;
  int fd_ = -1;
  struct stat at_open_ = {};
  int64_t size_at_open_ = 0;  // bytes a regular file had to read; 0 for others
  int64_t num_read_ = 0, num_given_ = 0;
  bool begun_ = false, stopped_ = false;
  std::unique_ptr<Unpacker> unpacker_;  // null if the data are not compressed
};

}  // namespace pagedinfer
