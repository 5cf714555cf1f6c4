#include "ops/cuda/upload.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "core/cpu_list.h"
#include "core/start_thread.h"
#include "ops/cuda/convert.h"

namespace pagedinfer {
namespace {

// One thread copies and converts more slowly than the bus transfers.
constexpr int kMaxThreads = 8;
constexpr int64_t kNumbersPerThread = 1 << 20;  // at least

// Converts the numbers [first, first + count) of the tensor, counted row by row.
void gather(const Tensor& host, int64_t first, int64_t count, DType dtype, char* to) {
  while (count > 0) {
    const int64_t row = first / host.cols, column = first % host.cols;
    // Rows without gaps are one long row.
    const int64_t n = host.stride == host.cols ? count : std::min(count, host.cols - column);
    const char* const from =
        static_cast<const char*>(host.data) + (row * host.stride + column) * size_of(host.dtype);
    convert(from, host.dtype, to, dtype, n);
    to += n * size_of(dtype);
    first += n;
    count -= n;
  }
}

}  // namespace

void upload_rows(const Tensor& host, DType dtype, char* to, Staging& staging, cudaStream_t stream) {
  const int64_t total = host.rows * host.cols, piece = staging.bytes() / size_of(dtype);
  const int cores = num_cores();
  for (int64_t first = 0; first < total; first += piece) {
    const int64_t count = std::min(piece, total - first);
    char* const buffer = staging.next();
    const int64_t parts =
        std::clamp<int64_t>(count / kNumbersPerThread, 1, std::min(kMaxThreads, cores));
    const auto fill = [&](int64_t part) {
      const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
      gather(host, first + begin, end - begin, dtype, buffer + begin * size_of(dtype));
    };
    {
      std::vector<std::jthread> threads;
      for (int64_t part = 1; part < parts; ++part) {
        threads.push_back(start_thread<std::jthread>("copies weights", [&, part] { fill(part); }));
      }
      fill(0);
    }
    staging.send(to + first * size_of(dtype), count * size_of(dtype), stream);
  }
}

}  // namespace pagedinfer
