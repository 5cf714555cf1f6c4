#include "io/watched_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/error.h"
#include "core/hash.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kSampleBytes = 64 << 10;
constexpr int64_t kNumSamples = 16;
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
constexpr std::chrono::nanoseconds kSettled = 2s;  // more than any file system's tick

}  // namespace

WatchedFile::WatchedFile(const MappedFile& file)
    : path_(file.path()),
      fd_(file.fd()),
      stamp_(stamp_now()),
      identity_(identity_now(stamp_.size)) {}

void WatchedFile::check() {
  const Stamp now = stamp_now();
  if (stamp_.is_settled && now.size == stamp_.size && now.changed == stamp_.changed) return;
  const std::string found = identity_now(now.size);
  if (found == identity_) {
    stamp_ = now;
    return;
  }
  throw Error(
      fmt::format("{}: another program has changed the file while it was in use: found {}, "
                  "expected {}; nothing that was computed from its new bytes is kept",
                  path_, found, identity_));
}

WatchedFile::Stamp WatchedFile::stamp_now() const {
  struct stat status = {};
  if (::fstat(fd_, &status) != 0) throw cannot_read(path_, errno);
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::nanoseconds changed = std::chrono::seconds(status.st_ctim.tv_sec) +
                                           std::chrono::nanoseconds(status.st_ctim.tv_nsec);
  return {status.st_size, changed.count(), now - changed > kSettled};
}

std::string WatchedFile::identity_now(int64_t size) const {
  std::string part;
  const auto read = [&](int64_t begin, int64_t bytes) {
    part.resize(static_cast<size_t>(std::min(bytes, size - begin)));
    const ssize_t count = read_at(fd_, begin, part.data(), part.size());
    if (count < 0) throw cannot_read(path_, errno);
    part.resize(static_cast<size_t>(count));
  };
  uint64_t header_bytes = 0;
  read(0, sizeof header_bytes);
  std::memcpy(&header_bytes, part.data(), part.size());
  read(0, static_cast<int64_t>(sizeof header_bytes + std::min(header_bytes, kMaxHeaderBytes)));
  uint64_t hash = hash_bytes(0, part);
  const int64_t stride = std::max(kSampleBytes, size / kNumSamples);
  for (int64_t begin = 0; begin < size; begin += stride) {
    read(begin, kSampleBytes);
    hash = hash_bytes(hash, part);
  }
  read(size - std::min(size, kSampleBytes), kSampleBytes);
  hash = hash_bytes(hash, part);
  return fmt::format("{} bytes, {:016x}", size, hash);
}

}  // namespace pagedinfer
