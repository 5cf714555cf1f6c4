#include "ops/cuda/upload.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/cpu_list.h"
#include "core/start_thread.h"
#include "kernels/int8.h"
#include "kernels/int8_panels.h"
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

// Rows [first, first + kInt8Rows) of the tensor as a panel of weights in int8; zeros beyond the
// last row.
void make_panel(const Tensor& host, int64_t first, char* panel) {
  std::memset(panel, 0, static_cast<size_t>(kernels::int8_weight_panel_bytes(host.cols)));
  auto* const scales = reinterpret_cast<float*>(panel + kernels::int8_numbers_bytes(host.cols));
  std::vector<float> x(static_cast<size_t>(host.cols));
  const int64_t count = std::min<int64_t>(kernels::kInt8Rows, host.rows - first);
  for (int64_t row = 0; row < count; ++row) {
    gather(host, (first + row) * host.cols, host.cols, DType::kF32,
           reinterpret_cast<char*>(x.data()));
    uint32_t largest = 0;
    for (const float number : x) largest = std::max(largest, kernels::magnitude_of(number));
    scales[row] = kernels::int8_scale(largest);
    for (int64_t begin = 0; begin < host.cols; begin += kernels::kInt8Columns) {
      auto* const to = reinterpret_cast<int8_t*>(panel + kernels::int8_offset(row, begin));
      const int64_t end = std::min<int64_t>(begin + kernels::kInt8Columns, host.cols);
      for (int64_t i = begin; i < end; ++i) {
        to[i - begin] = kernels::to_int8(x[static_cast<size_t>(i)], scales[row]);
      }
    }
  }
}

// Sends `total` units of `unit_bytes` each, as many at a time as the staging has room for. Threads
// fill it: fill(first, count, to) makes the units [first, first + count), at least `per_thread`.
template <class Fill>
void send_units(int64_t total, int64_t unit_bytes, int64_t per_thread, char* to, Staging& staging,
                cudaStream_t stream, const Fill& fill) {
  const int64_t piece = staging.bytes() / unit_bytes;
  CHECK(piece > 0);
  const int cores = num_cores();
  for (int64_t first = 0; first < total; first += piece) {
    const int64_t count = std::min(piece, total - first);
    char* const buffer = staging.next();
    const int64_t parts = std::clamp<int64_t>(count / per_thread, 1, std::min(kMaxThreads, cores));
    const auto fill_part = [&](int64_t part) {
      const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
      fill(first + begin, end - begin, buffer + begin * unit_bytes);
    };
    {
      std::vector<std::jthread> threads;
      for (int64_t part = 1; part < parts; ++part) {
        threads.push_back(
            start_thread<std::jthread>("copies weights", [&, part] { fill_part(part); }));
      }
      fill_part(0);
    }
    staging.send(to + first * unit_bytes, count * unit_bytes, stream);
  }
}

}  // namespace

void upload_rows(const Tensor& host, DType dtype, char* to, Staging& staging, cudaStream_t stream) {
  send_units(
      host.rows * host.cols, size_of(dtype), kNumbersPerThread, to, staging, stream,
      [&](int64_t first, int64_t count, char* part) { gather(host, first, count, dtype, part); });
}

void upload_int8(const Tensor& host, char* to, Staging& staging, cudaStream_t stream) {
  const int64_t bytes = kernels::int8_weight_panel_bytes(host.cols);
  send_units(kernels::int8_panels(host.rows), bytes,
             std::max<int64_t>(1, kNumbersPerThread / bytes), to, staging, stream,
             [&](int64_t first, int64_t count, char* part) {
               for (int64_t i = 0; i < count; ++i) {
                 make_panel(host, (first + i) * kernels::kInt8Rows, part + i * bytes);
               }
             });
}

}  // namespace pagedinfer
