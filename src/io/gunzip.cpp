#include "io/gunzip.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/error.h"

namespace pagedinfer {

namespace {

constexpr size_t kPackedBytes = 256 << 10;
constexpr int kOnlyGzip = 16 + MAX_WBITS;

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1F\x8B"); }

Gunzip::Gunzip(const std::string& name, std::string_view begun, ReadPacked read)
    : name_(name), read_(std::move(read)), packed_(std::max(kPackedBytes, begun.size())) {
  if (inflateInit2(&stream_, kOnlyGzip) != Z_OK) throw std::bad_alloc();
  std::copy(begun.begin(), begun.end(), packed_.begin());
  num_packed_ = static_cast<int64_t>(begun.size());
  stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
  stream_.avail_in = static_cast<uInt>(begun.size());
}

Gunzip::~Gunzip() { inflateEnd(&stream_); }

bool Gunzip::fill() {
  if (stream_.avail_in > 0) return true;
  const int64_t count = read_(packed_.data(), static_cast<int64_t>(packed_.size()));
  num_packed_ += count;
  stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
  stream_.avail_in = static_cast<uInt>(count);
  return count > 0;
}

bool Gunzip::skip_padding() {
  while (fill()) {
    if (*stream_.next_in != 0) return true;
    ++stream_.next_in;
    --stream_.avail_in;
  }
  return false;
}

int64_t Gunzip::read(char* data, int64_t size) {
  stream_.next_out = reinterpret_cast<Bytef*>(data);
  stream_.avail_out = static_cast<uInt>(size);
  for (;;) {
    if (!damage_.empty()) throw Error(damage_);
    if (inside_ ? !fill() : !skip_padding()) return 0;
    inside_ = true;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      inflateReset(&stream_);
      inside_ = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      damage_ = fmt::format("{}: the gzip data are damaged at or before byte {}: {}", name_, used(),
                            stream_.msg != nullptr ? stream_.msg : "a preset dictionary is needed");
    }
    const auto count = size - static_cast<int64_t>(stream_.avail_out);
    if (count > 0) return count;
  }
}

void Gunzip::check_whole() const {
  if (!inside_) return;
  throw Error(fmt::format("{}: the gzip data end at byte {}, in the middle: the file is incomplete",
                          name_, num_packed_));
}

}  // namespace pagedinfer
