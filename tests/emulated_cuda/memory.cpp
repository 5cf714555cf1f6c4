// Device memory and pinned host memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "queue.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes)
#endif

namespace emulated {
namespace {

constexpr size_t kPage = 4096, kFile = size_t{16} << 20;

struct Piece {
  size_t bytes, mapped;  // mapped: with an inaccessible page on either side
};
using Pieces = std::map<char*, Piece>;

Pieces& pieces(bool of_device) {
  static Pieces of_host_pieces, of_device_pieces;
  return of_device ? of_device_pieces : of_host_pieces;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::abort();
}

// A file of bytes 0xff. Mapped repeatedly it makes any amount of NaN, and takes memory only where
// it is written.
int file_of_ones() {
  static const int file = [] {
    const int made = memfd_create("ones", 0);
    const std::vector<unsigned char> ones(kFile, 0xff);
    if (made < 0 || write(made, ones.data(), kFile) != static_cast<ssize_t>(kFile)) fail("memfd");
    return made;
  }();
  return file;
}

void* take(size_t bytes, bool of_device) {
  const size_t inside = (bytes + kPage - 1) / kPage * kPage, all = inside + 2 * kPage;
  void* const base =
      mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail("mmap");
  char* const p = static_cast<char*>(base) + kPage;
  for (size_t at = 0; at < inside; at += kFile) {
    if (mmap(p + at, std::min(kFile, inside - at), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_of_ones(), 0) == MAP_FAILED) {
      fail("mmap");
    }
  }
  ASAN_POISON_MEMORY_REGION(p + bytes, inside - bytes);
  pieces(of_device)[p] = {bytes, all};
  return p;
}

bool give_back(void* p, bool of_device) {
  Pieces& from = pieces(of_device);
  const auto found = from.find(static_cast<char*>(p));
  if (found == from.end()) return false;
  const auto [bytes, mapped] = found->second;
  const size_t inside = mapped - 2 * kPage;
  ASAN_UNPOISON_MEMORY_REGION(found->first + bytes, inside - bytes);
  for (size_t i = bytes; i < inside; ++i) {
    if (static_cast<unsigned char>(found->first[i]) == 0xff) continue;
    std::fprintf(stderr, "byte %zu was written to, of a piece of memory of %zu\n", i, bytes);
    std::abort();
  }
  munmap(found->first - kPage, mapped);
  from.erase(found);
  return true;
}

bool lies_in(const Pieces& among, const void* pointer, size_t bytes) {
  char* const p = const_cast<char*>(static_cast<const char*>(pointer));
  auto next = among.upper_bound(p);
  if (next == among.begin()) return false;
  const auto& [first, piece] = *--next;
  return p + bytes <= first + piece.bytes;
}

cudaError_t give_back_waiting(void* p, bool of_device) {
  const Call call;
  if (p == nullptr) return cudaSuccess;
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
  run_all();  // as CUDA does
  return give_back(p, of_device) ? cudaSuccess : answer(cudaErrorInvalidValue);
}

cudaError_t copy(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t width,
                 size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  const Call call;
  if (width == 0 || height == 0) return enter();
  if (height > 1 && (width > to_pitch || width > from_pitch)) {
    return answer(cudaErrorInvalidPitchValue);
  }
  const size_t to_bytes = to_pitch * (height - 1) + width;
  const size_t from_bytes = from_pitch * (height - 1) + width;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (on_device(to, to_device ? to_bytes : 1) != to_device ||
      on_device(from, from_device ? from_bytes : 1) != from_device) {
    return answer(cudaErrorInvalidValue);
  }
  // A graph runs later, when pageable memory may hold something else.
  const bool moves =
      !(to_device || is_pinned(to, to_bytes)) || !(from_device || is_pinned(from, from_bytes));
  if (stream != nullptr && stream->capture != nullptr && moves) {
    stream->capture_is_broken = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  ++device().counts.copies;
  return enqueue(stream, ItemKind::kCopy, nullptr, [=] {
    for (size_t i = 0; i < height; ++i) {
      std::memcpy(to + i * to_pitch, from + i * from_pitch, width);
    }
  });
}

}  // namespace

bool on_device(const void* p, size_t bytes) { return lies_in(pieces(true), p, bytes); }
bool is_pinned(const void* p, size_t bytes) { return lies_in(pieces(false), p, bytes); }
int64_t bytes_taken() {
  int64_t sum = 0;
  for (const auto& [p, piece] : pieces(true)) sum += static_cast<int64_t>(piece.bytes);
  return sum;
}

}  // namespace emulated

using emulated::answer;
using emulated::Call;

cudaError_t cudaMalloc(void** p, size_t bytes) {
  const Call call;
  if (const cudaError_t error = emulated::refuse_in_capture(); error != cudaSuccess) return error;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  *p = nullptr;
  if (bytes > static_cast<size_t>(emulated::settings().memory - emulated::bytes_taken())) {
    return answer(cudaErrorMemoryAllocation);
  }
  ++emulated::device().counts.allocations;
  if (bytes > 0) *p = emulated::take(bytes, true);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, size_t bytes) {
  const Call call;
  if (const cudaError_t error = emulated::refuse_in_capture(); error != cudaSuccess) return error;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  *p = nullptr;
  if (bytes > static_cast<size_t>(emulated::settings().pinned_memory)) {
    return answer(cudaErrorMemoryAllocation);
  }
  ++emulated::device().counts.allocations;
  if (bytes > 0) *p = emulated::take(bytes, false);
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) { return emulated::give_back_waiting(p, true); }
cudaError_t cudaFreeHost(void* p) { return emulated::give_back_waiting(p, false); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Call call;
  *total = static_cast<size_t>(emulated::settings().memory);
  *free = *total - static_cast<size_t>(emulated::bytes_taken());
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return emulated::copy(static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes,
                        1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return emulated::copy(static_cast<char*>(to), to_pitch, static_cast<const char*>(from),
                        from_pitch, width, height, kind, stream);
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  const Call call;
  if (bytes == 0) return emulated::enter();
  if (!emulated::on_device(to, bytes)) return answer(cudaErrorInvalidValue);
  return emulated::enqueue(stream, emulated::ItemKind::kSet, nullptr,
                           [=] { std::memset(to, byte, bytes); });
}
