#include "ops/cuda/upload.h"

#include <algorithm>
#include <cstring>
#include <span>
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
constexpr int kMaxCopyThreads = 8;
constexpr int64_t kNumbersPerThread = 1 << 20;  // at least
constexpr int64_t kRowsAtOnce = 16;             // of a matrix that is computed

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

// Computes rows [first, first + count) of the matrix, a few at a time, and calls
// f(row of the first, number of rows, their numbers).
template <class F>
void for_computed_rows(const RowSource& source, int64_t first, int64_t count, const F& f) {
  std::vector<float> wide(static_cast<size_t>(std::min(count, kRowsAtOnce) * source.cols));
  for (int64_t done = 0; done < count; done += kRowsAtOnce) {
    const int64_t rows = std::min(count - done, kRowsAtOnce);
    source.read(first + done, rows, wide.data());
    f(done, rows, wide.data());
  }
}

// Rows [first, first + kInt8Rows) of the matrix as a panel of weights in int8; zeros beyond the
// last row.
void make_panel(const RowSource& source, int64_t first, char* panel) {
  const int64_t cols = source.cols;
  std::memset(panel, 0, static_cast<size_t>(kernels::int8_weight_panel_bytes(cols)));
  auto* const scales = reinterpret_cast<float*>(panel + kernels::int8_numbers_bytes(cols));
  const auto add_row = [&](int64_t row, std::span<const float> x) {
    uint32_t largest = 0;
    for (const float number : x) largest = std::max(largest, kernels::magnitude_of(number));
    scales[row] = kernels::int8_scale(largest);
    for (int64_t begin = 0; begin < cols; begin += kernels::kInt8Columns) {
      auto* const to = reinterpret_cast<int8_t*>(panel + kernels::int8_offset(row, begin));
      const int64_t end = std::min<int64_t>(begin + kernels::kInt8Columns, cols);
      for (int64_t i = begin; i < end; ++i) {
        to[i - begin] = kernels::to_int8(x[static_cast<size_t>(i)], scales[row]);
      }
    }
  };
  const int64_t count = std::min<int64_t>(kernels::kInt8Rows, source.rows - first);
  for_computed_rows(source, first, count, [&](int64_t row, int64_t rows, const float* numbers) {
    for (int64_t i = 0; i < rows; ++i) {
      add_row(row + i, {numbers + i * cols, static_cast<size_t>(cols)});
    }
  });
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
    const int64_t parts =
        std::clamp<int64_t>(count / per_thread, 1, std::min(kMaxCopyThreads, cores));
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

void upload_rows(const RowSource& source, DType dtype, char* to, Staging& staging,
                 cudaStream_t stream) {
  const int64_t bytes = source.cols * size_of(dtype);
  send_units(source.rows, bytes, std::max<int64_t>(1, kNumbersPerThread / source.cols), to, staging,
             stream, [&](int64_t first, int64_t count, char* part) {
               for_computed_rows(
                   source, first, count, [&](int64_t row, int64_t rows, const float* numbers) {
                     convert(numbers, DType::kF32, part + row * bytes, dtype, rows * source.cols);
                   });
             });
}

void upload_int8(const RowSource& source, char* to, Staging& staging, cudaStream_t stream) {
  const int64_t bytes = kernels::int8_weight_panel_bytes(source.cols);
  send_units(kernels::int8_panels(source.rows), bytes,
             std::max<int64_t>(1, kNumbersPerThread / bytes), to, staging, stream,
             [&](int64_t first, int64_t count, char* part) {
               for (int64_t i = 0; i < count; ++i) {
                 make_panel(source, (first + i) * kernels::kInt8Rows, part + i * bytes);
               }
             });
}

}  // namespace pagedinfer
