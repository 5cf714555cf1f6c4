#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "io/packing.h"

namespace pagedinfer {

// Compresses bytes, or passes them through with Compression::kNone. The same bytes and version of
// the library give the same compressed bytes.
class Packer {
 public:
  using Sink = std::function<void(std::string_view packed)>;

  Packer(Compression packing, Sink sink);
  ~Packer();

  void append(std::string_view bytes);
  // REQUIRES: append() is not called any more.
  void finish();

 private:
  class Stream;

  void write(std::string_view bytes, bool is_last);

  const Sink sink_;
  std::unique_ptr<Stream> stream_;  // null: bytes pass through
};

}  // namespace pagedinfer
