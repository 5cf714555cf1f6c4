#include "io/packer.h"

#include <zlib.h>
#include <zstd.h>

#include <new>
#include <utility>
#include <vector>

#include "core/check.h"

namespace pagedinfer {

namespace {

constexpr int kGzipForm = 16 + MAX_WBITS, kGzipLevel = 6, kGzipMemory = 8;
constexpr int kZstdLevel = 3;

}  // namespace

// The library's state and a buffer for what it gives.
class Packer::Stream {
 public:
  explicit Stream(Compression packing)
      : is_zstd_(packing == Compression::kZstd), packed_(256 << 10) {
    if (is_zstd_) {
      zstd_ = ZSTD_createCCtx();
      if (zstd_ == nullptr) throw std::bad_alloc();
      ZSTD_CCtx_setParameter(zstd_, ZSTD_c_compressionLevel, kZstdLevel);
      ZSTD_CCtx_setParameter(zstd_, ZSTD_c_checksumFlag, 1);
    } else if (deflateInit2(&zlib_, kGzipLevel, Z_DEFLATED, kGzipForm, kGzipMemory,
                            Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Stream() { is_zstd_ ? static_cast<void>(ZSTD_freeCCtx(zstd_)) : void(deflateEnd(&zlib_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes bytes from the front of `bytes` and returns compressed ones. Sets `is_done` when all are
  // taken and, if they are the last, all was returned.
  std::string_view step(std::string_view& bytes, bool is_last, bool& is_done) {
    return is_zstd_ ? step_zstd(bytes, is_last, is_done) : step_gzip(bytes, is_last, is_done);
  }

 private:
  std::string_view step_gzip(std::string_view& bytes, bool is_last, bool& is_done) {
    constexpr size_t kMaxInput = 1 << 30;
    const std::string_view part = bytes.substr(0, kMaxInput);
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    zlib_.avail_in = static_cast<uInt>(part.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(packed_.data());
    zlib_.avail_out = static_cast<uInt>(packed_.size());
    const int result = deflate(&zlib_, is_last ? Z_FINISH : Z_NO_FLUSH);
    CHECK(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR);
    bytes.remove_prefix(part.size() - zlib_.avail_in);
    is_done = is_last ? result == Z_STREAM_END : bytes.empty() && zlib_.avail_out > 0;
    return {packed_.data(), packed_.size() - zlib_.avail_out};
  }

  std::string_view step_zstd(std::string_view& bytes, bool is_last, bool& is_done) {
    ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
    ZSTD_outBuffer out = {packed_.data(), packed_.size(), 0};
    const size_t left =
        ZSTD_compressStream2(zstd_, &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left) != 0) throw std::bad_alloc();
    bytes.remove_prefix(in.pos);
    is_done = is_last ? left == 0 : bytes.empty();
    return {packed_.data(), out.pos};
  }

  const bool is_zstd_;
  std::vector<char> packed_;
  z_stream zlib_ = {};
  ZSTD_CCtx* zstd_ = nullptr;
};

Packer::Packer(Compression packing, Sink sink) : sink_(std::move(sink)) {
  if (packing != Compression::kNone) stream_ = std::make_unique<Stream>(packing);
}

Packer::~Packer() = default;

void Packer::append(std::string_view bytes) { stream_ ? write(bytes, false) : sink_(bytes); }

void Packer::finish() {
  if (stream_) write({}, true);
}

void Packer::write(std::string_view bytes, bool is_last) {
  for (bool is_done = false; !is_done;) {
    const std::string_view packed = stream_->step(bytes, is_last, is_done);
    if (!packed.empty()) sink_(packed);
  }
}

}  // namespace pagedinfer
