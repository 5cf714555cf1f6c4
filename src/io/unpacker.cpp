#include "io/unpacker.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/error.h"

namespace pagedinfer {

namespace {

constexpr size_t kPackedBytes = 256 << 10;
constexpr int kOnlyGzip = 16 + MAX_WBITS;
constexpr int kMaxWindowLog = 27;

}  // namespace

// The library's state.
class Unpacker::Stream {
 public:
  explicit Stream(Compression packing) : is_zstd_(packing == Compression::kZstd) {
    if (is_zstd_) {
      zstd_ = ZSTD_createDCtx();
      if (zstd_ == nullptr) throw std::bad_alloc();
      ZSTD_DCtx_setParameter(zstd_, ZSTD_d_windowLogMax, kMaxWindowLog);
    } else if (inflateInit2(&zlib_, kOnlyGzip) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Stream() { is_zstd_ ? static_cast<void>(ZSTD_freeDCtx(zstd_)) : void(inflateEnd(&zlib_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  struct Step {
    int64_t count = 0;        // bytes given
    bool at_end = false;      // of a member
    std::string damage = {};  // what is wrong with the data
  };

  // Takes bytes from the front of `packed` and writes up to `size` bytes to `data`.
  Step step(std::string_view& packed, char* data, int64_t size) {
    return is_zstd_ ? step_zstd(packed, data, size) : step_gzip(packed, data, size);
  }

 private:
  Step step_gzip(std::string_view& packed, char* data, int64_t size) {
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    zlib_.avail_in = static_cast<uInt>(packed.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(data);
    zlib_.avail_out = static_cast<uInt>(size);
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    packed.remove_prefix(packed.size() - zlib_.avail_in);
    Step step = {.count = size - static_cast<int64_t>(zlib_.avail_out),
                 .at_end = result == Z_STREAM_END};
    if (step.at_end) {
      inflateReset(&zlib_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      step.damage = zlib_.msg != nullptr ? zlib_.msg : "a preset dictionary is needed";
    }
    return step;
  }

  Step step_zstd(std::string_view& packed, char* data, int64_t size) {
    ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
    ZSTD_outBuffer out = {data, static_cast<size_t>(size), 0};
    const size_t result = ZSTD_decompressStream(zstd_, &out, &in);
    packed.remove_prefix(in.pos);
    Step step = {.count = static_cast<int64_t>(out.pos), .at_end = result == 0};
    if (ZSTD_isError(result) == 0) return step;
    step.damage = ZSTD_getErrorName(result);
    if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
      step.damage += ": the window is above 128 MiB; zstd -d --long=31 unpacks it";
    }
    return step;
  }

  const bool is_zstd_;
  z_stream zlib_ = {};
  ZSTD_DCtx* zstd_ = nullptr;
};

Unpacker::Unpacker(const PackingForm& form, const std::string& name, std::string_view begun,
                   ReadPacked read)
    : form_(form),
      name_(name),
      read_(std::move(read)),
      stream_(std::make_unique<Stream>(form.packing)),
      packed_(std::max(kPackedBytes, begun.size())),
      unread_(packed_.data(), begun.size()),
      num_packed_(std::ssize(begun)) {
  std::copy(begun.begin(), begun.end(), packed_.begin());
}

Unpacker::~Unpacker() = default;

bool Unpacker::fill() {
  if (!unread_.empty()) return true;
  const int64_t count = read_(packed_.data(), std::ssize(packed_));
  num_packed_ += count;
  unread_ = {packed_.data(), static_cast<size_t>(count)};
  return count > 0;
}

bool Unpacker::skip_padding() {
  while (fill()) {
    if (form_.packing != Compression::kGzip || unread_.front() != 0) return true;
    unread_.remove_prefix(1);
  }
  return false;
}

int64_t Unpacker::read(char* data, int64_t size) {
  for (;;) {
    if (!damage_.empty()) throw Error(damage_);
    if (!is_held_ && (inside_ ? !fill() : !skip_padding())) return 0;
    const Stream::Step step = stream_->step(unread_, data, size);
    inside_ = !step.at_end;
    is_held_ = inside_ && step.count == size;
    if (!step.damage.empty()) {
      damage_ = fmt::format("{}: the {} data are damaged at or before byte {}: {}", name_,
                            form_.name, used(), step.damage);
    }
    if (step.count > 0) return step.count;
  }
}

void Unpacker::check_whole() const {
  if (!inside_) return;
  throw Error(fmt::format("{}: the {} data end at byte {}, in the middle: the file is incomplete",
                          name_, form_.name, num_packed_));
}

}  // namespace pagedinfer
