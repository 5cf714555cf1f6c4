#pragma once

#include <zlib.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Whether `bytes` begin with gzip's magic number. No UTF-8 text does.
bool is_gzip(std::string_view bytes);

// Decompresses gzip data of one or more members. Ignores NUL padding after a member, as gzip -d
// does. At a damaged place it first returns all bytes before the place, and then throws.
class Gunzip {
 public:
  // Reads up to `size` compressed bytes; 0 at the end.
  using ReadPacked = std::function<int64_t(char* data, int64_t size)>;

  // `begun` holds the first compressed bytes, `read` returns the following ones. `name` is for
  // error messages.
  Gunzip(const std::string& name, std::string_view begun, ReadPacked read);
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Decompresses up to `size` bytes; 0 at the end. Throws Error if the data are damaged.
  int64_t read(char* data, int64_t size);
  // Whether compressed bytes are buffered.
  bool has_unread() const { return stream_.avail_in > 0; }
  // Throws Error if the compressed data ended inside a member.
  void check_whole() const;
  // Compressed bytes consumed so far.
  int64_t used() const { return num_packed_ - static_cast<int64_t>(stream_.avail_in); }

 private:
  // Refills an empty buffer; false at the end of the compressed data.
  bool fill();
  // Skips NUL bytes between members; false at the end of the compressed data.
  bool skip_padding();

  const std::string name_;
  const ReadPacked read_;
  std::vector<char> packed_;
  int64_t num_packed_ = 0;  // compressed bytes read so far
  bool inside_ = false;     // a member
  std::string damage_;      // an error found behind the bytes already returned
  z_stream stream_ = {};
};

}  // namespace pagedinfer
