#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/packing.h"

namespace pagedinfer {

// Decompresses data of one or more members (gzip) or frames (zstd). Ignores NUL padding after a
// member, as gzip -d does. Refuses frames with a window above 128 MiB, as zstd -d does. At a
// damaged place it first returns all bytes before the place, and then throws.
class Unpacker {
 public:
  // Reads up to `size` compressed bytes; 0 at the end.
  using ReadPacked = std::function<int64_t(char* data, int64_t size)>;

  // `begun` holds the first compressed bytes, `read` returns the following ones. `name` is for
  // error messages.
  Unpacker(const PackingForm& form, const std::string& name, std::string_view begun,
           ReadPacked read);
  ~Unpacker();

  // Decompresses up to `size` bytes; 0 at the end. Throws Error if the data are damaged.
  int64_t read(char* data, int64_t size);
  // Whether bytes can be returned without reading more compressed ones.
  bool has_unread() const { return !unread_.empty() || is_held_; }
  // Throws Error if the compressed data ended inside a member.
  void check_whole() const;
  // Compressed bytes consumed so far.
  int64_t used() const { return num_packed_ - static_cast<int64_t>(unread_.size()); }

 private:
  class Stream;

  // Refills an empty buffer; false at the end of the compressed data.
  bool fill();
  // Skips what may stand between members; false at the end of the compressed data.
  bool skip_padding();

  const PackingForm& form_;
  const std::string name_;
  const ReadPacked read_;
  std::unique_ptr<Stream> stream_;
  std::vector<char> packed_;
  std::string_view unread_;  // of packed_
  int64_t num_packed_ = 0;   // compressed bytes read so far
  bool inside_ = false;      // a member
  bool is_held_ = false;     // the stream may hold bytes for which there was no room
  std::string damage_;       // an error found behind the bytes already returned
};

}  // namespace pagedinfer
