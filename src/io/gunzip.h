#pragma once

#include <zlib.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Whether these first bytes of a file say that it is packed by gzip. No text begins like this.
bool is_gzip(std::string_view bytes);

// Unpacks gzip data of one member or several, as gzip -d does: NUL bytes behind the last one are
// no data. What can be unpacked is given before it is told that the rest cannot.
class Gunzip {
 public:
  // Up to `size` bytes; 0 at their end.
  using ReadPacked = std::function<int64_t(char* data, int64_t size)>;

  // `begun` are the first packed bytes, `read` gives those behind them. Errors call the data
  // `name`.
  Gunzip(const std::string& name, std::string_view begun, ReadPacked read);
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Unpacks up to `size` bytes; 0 at the end. Throws Error where the data are damaged.
  int64_t read(char* data, int64_t size);
  // Whether packed bytes were read that are not unpacked.
  bool has_unread() const { return stream_.avail_in > 0; }
  // Throws Error if the packed bytes have ended in the middle.
  void check_whole() const;
  // Packed bytes that what was given so far was made of.
  int64_t used() const { return num_packed_ - static_cast<int64_t>(stream_.avail_in); }

 private:
  // Reads more packed bytes if all are used up; false at their end.
  bool fill();
  bool skip_padding();

  const std::string name_;
  const ReadPacked read_;
  std::vector<char> packed_;
  int64_t num_packed_ = 0;  // bytes read so far
  bool inside_ = false;     // of a member
  std::string damage_;      // what is wrong behind the bytes that were given
  z_stream stream_ = {};
};

}  // namespace pagedinfer
