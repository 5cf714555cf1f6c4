#include "ops/cpu/cpu_memory.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "ops/cpu/kv_positions.h"
#include "ops/cpu/packed_format.h"

namespace pagedinfer {

namespace {

constexpr const char* kCacheName = "the KV cache (--kv-memory says how much it takes)";
constexpr DType kScaleType = DType::kF32;

// Keys, values and their scales begin with a page each.
constexpr int64_t whole_pages(int64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

Tensor CpuMemory::allocate(DType dtype, int64_t rows, int64_t cols) {
  permanent_.emplace_back(rows * cols * size_of(dtype), "a tensor");
  return {permanent_.back().data(), dtype, rows, cols, cols};
}

Tensor CpuMemory::upload(Tensor host, DType dtype) {
  if (host.dtype == dtype) {
    prefaulter_.will_read(host.data, host.bytes());
    return host;
  }
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  const Tensor copy = allocate(dtype, host.rows, host.cols);
  state_.pool.parallel_for(static_cast<int>(host.rows), [&](int i, int) {
    constexpr int64_t kPiece = 1024;
    for (int64_t first = 0; first < host.cols; first += kPiece) {
      const int64_t n = std::min(kPiece, host.cols - first);
      float piece[kPiece];
      float* const wide = dtype == DType::kF32 ? copy.row<float>(i) + first : piece;
      widen_numbers(state_.kernels, host, i, first, n, wide);
      if (dtype == DType::kBF16) state_.kernels.to_bf16(wide, copy.row<bf16>(i) + first, n);
    }
  });
  return copy;
}

bool CpuMemory::packs(DType dtype) const {
  return dtype == DType::kI8 || (dtype == DType::kBF16 && state_.options.packs_weights);
}

template <class F>
void CpuMemory::for_weight_rows(int64_t rows, const F& f) {
  const int64_t tasks = (rows + kPackedWeightRows - 1) / kPackedWeightRows;
  state_.pool.parallel_for(static_cast<int>(tasks), [&](int i, int worker) {
    const int64_t first = int64_t{i} * kPackedWeightRows;
    f(first, std::min<int64_t>(kPackedWeightRows, rows - first), worker);
  });
}

// Smaller matrices follow one another: one that is below the size of a large page, such as an
// expert's, would have small pages only, and reading those is slower.
char* CpuMemory::take_packed(int64_t bytes) {
  constexpr int64_t kRegion = int64_t{64} << 20, kOwnRegion = kRegion / 4;
  constexpr const char* kWhat = "packed weights";
  if (bytes >= kOwnRegion) {
    permanent_.push_back(HostMemory::of_large_pages(bytes, kWhat));
    return permanent_.back().data();
  }
  const auto lines = static_cast<size_t>((bytes + 63) / 64 * 64);
  if (lines > room_.size()) {
    regions_.push_back(HostMemory::of_large_pages(kRegion, kWhat));
    room_ = {regions_.back().data(), static_cast<size_t>(kRegion)};
  }
  taken_of_regions_ += bytes;
  return std::exchange(room_, room_.subspan(lines)).data();
}

Tensor CpuMemory::upload_matrix(Tensor host, DType dtype) {
  if (!packs(dtype)) return upload(host, dtype);
  const PackedFormat& format = packed_format(dtype, state_.options.isa);
  char* const packed = take_packed(format.bytes(host.rows, host.cols));
  for_weight_rows(host.rows, [&](int64_t first, int64_t count, int) {
    Tensor rows = host;
    rows.data = static_cast<char*>(host.data) + first * host.stride * size_of(host.dtype);
    rows.rows = count;
    format.pack_rows(state_.kernels, rows, first, packed);
  });
  return format.view(packed, host.rows, host.cols);
}

Tensor CpuMemory::upload_seldom_read(Tensor host, DType dtype) {
  const bool is_view = host.dtype == dtype && !packs(dtype);
  return is_view ? host : upload_matrix(host, dtype);
}

Tensor CpuMemory::upload_matrix(const RowSource& source, DType dtype) {
  const int64_t rows = source.rows, cols = source.cols;
  const PackedFormat* const format =
      packs(dtype) ? &packed_format(dtype, state_.options.isa) : nullptr;
  const Tensor matrix = format != nullptr
                            ? format->view(take_packed(format->bytes(rows, cols)), rows, cols)
                            : allocate(dtype, rows, cols);
  std::vector<std::vector<float>> wide(static_cast<size_t>(state_.pool.num_threads()));
  for_weight_rows(rows, [&](int64_t first, int64_t count, int worker) {
    if (dtype == DType::kF32) return source.read(first, count, matrix.row<float>(first));
    std::vector<float>& numbers = wide[static_cast<size_t>(worker)];
    numbers.resize(static_cast<size_t>(kPackedWeightRows * cols));
    source.read(first, count, numbers.data());
    if (format != nullptr) {
      const Tensor read = {numbers.data(), DType::kF32, count, cols, cols};
      format->pack_rows(state_.kernels, read, first, static_cast<char*>(matrix.data));
    } else if (dtype == DType::kBF16) {
      state_.kernels.to_bf16(numbers.data(), matrix.row<bf16>(first), count * cols);
    } else {
      state_.kernels.to_f16(numbers.data(), matrix.row<f16>(first), count * cols);
    }
  });
  return matrix;
}

Tensor CpuMemory::upload_codes(const CodeSource& source) {
  const Tensor matrix = begin_int4(source, take_packed(int4_bytes(source)));
  const auto tasks = static_cast<int>((source.rows + kPackedCodeRows - 1) / kPackedCodeRows);
  state_.pool.parallel_for(tasks, [&](int i, int) {
    const int64_t first = int64_t{i} * kPackedCodeRows;
    pack_int4_rows(source, first, std::min<int64_t>(kPackedCodeRows, source.rows - first), matrix);
  });
  return matrix;
}

void CpuMemory::add_low_rank(const LowRankRow& row, int64_t first, int64_t n, float* y) const {
  state_.kernels.add_low_rank(row.factors, row.a + first, row.cols, row.rank, row.scale, y, n);
}

int64_t CpuMemory::matrix_bytes(Tensor host, DType dtype) const {
  return packs(dtype) ? packed_format(dtype, state_.options.isa).bytes(host.rows, host.cols)
                      : uploaded_bytes(host, dtype);
}

void CpuMemory::reserve_kv(int64_t bytes) { kv_ = HostMemory(bytes, kCacheName); }

KvLayer CpuMemory::allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) {
  CHECK(dtype != DType::kI32);
  CHECK(head_dim <= kMaxHeadDim);
  const int64_t rows = kv_heads * padded_positions(num_positions);
  const int64_t first_rows = kv_heads * padded_positions(std::min(num_positions, first_positions_));
  constexpr int64_t kWorthLargePages = int64_t{4} << 20;  // the last page is used in part
  const auto make = [&](DType type, int64_t cols) {
    const int64_t bytes = whole_pages(rows * cols * size_of(type));
    const bool is_reserved = bytes <= kv_.size() - kv_used_;
    if (!is_reserved) permanent_.emplace_back(bytes, kCacheName);
    HostMemory& memory = is_reserved ? kv_ : permanent_.back();
    const int64_t begin = is_reserved ? std::exchange(kv_used_, kv_used_ + bytes) : 0;
    if (bytes >= kWorthLargePages) memory.prefer_large_pages(begin, bytes);
    prefaulter_.will_write(memory.data() + begin, first_rows * cols * size_of(type));
    return Tensor{memory.data() + begin, type, rows, cols, cols};
  };
  const int64_t cols = padded_head_dim(head_dim);
  const Tensor k = make(dtype, cols), v = make(dtype, cols);
  KvLayer layer = {k, v, kv_heads, head_dim, num_positions};
  if (has_scales(dtype)) {
    layer.k_scale = make(kScaleType, 1);
    layer.v_scale = make(kScaleType, 1);
  }
  return layer;
}

int64_t CpuMemory::kv_bytes(DType dtype, int kv_heads, int head_dim, int64_t num_positions) const {
  const int64_t rows = kv_heads * padded_positions(num_positions);
  const int64_t scales = has_scales(dtype) ? whole_pages(rows * size_of(kScaleType)) : 0;
  return 2 * (whole_pages(rows * padded_head_dim(head_dim) * size_of(dtype)) + scales);
}

int64_t CpuMemory::kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const {
  const int64_t scale = has_scales(dtype) ? size_of(kScaleType) : 0;
  return 2 * kv_heads * (padded_head_dim(head_dim) * size_of(dtype) + scale);
}

// Maps memory, which gets pages when it is touched. A run fills the beginning of its cache first,
// so the positions of a step of usual size are faulted in ahead. Prompts that are not cut may make
// larger steps, but few of them.
void CpuMemory::reserve_steps(const StepBounds& bounds, int64_t bytes) {
  constexpr int64_t kUsualStep = 2048;
  first_positions_ = std::min(bounds.tokens, kUsualStep);
  arithmetic_.reserve(bounds);
  steps_.reserve(
      std::max(bytes - CpuArithmetic::step_bytes(bounds), CpuSteps::staged_bytes(bounds)));
}

int64_t CpuMemory::workspace_bytes(const StepBounds& bounds) const {
  return CpuArithmetic::step_bytes(bounds) + CpuSteps::staged_bytes(bounds);
}

int64_t CpuMemory::thread_bytes(const StepBounds& bounds) const {
  constexpr int64_t kStack = 128 << 10;  // what a thread touches of it, and of a heap of its own
  const int64_t each = kStack + CpuSteps::thread_bytes(bounds);
  return state_.options.num_threads * each + arithmetic_.thread_bytes(bounds);
}

void CpuMemory::make_present() {
  const auto touch = [&](std::span<char> memory) {
    constexpr size_t kPiece = 4 << 20;
    state_.pool.parallel_for(static_cast<int>((memory.size() + kPiece - 1) / kPiece),
                             [&](int i, int) {
                               const size_t begin = static_cast<size_t>(i) * kPiece;
                               const size_t end = std::min(memory.size(), begin + kPiece);
                               for (size_t at = begin; at < end; at += kPageBytes) memory[at] = 0;
                             });
  };
  touch({kv_.data(), static_cast<size_t>(kv_.size())});
  for (const std::span<char> rows : arithmetic_.packed_rows()) touch(rows);
  touch(steps_.reserved());
  prefaulter_.finish();
}

int64_t CpuMemory::held_bytes() const {
  int64_t bytes = kv_.size() + taken_of_regions_ + arithmetic_.held_bytes() + steps_.held_bytes();
  for (const HostMemory& memory : permanent_) bytes += memory.size();
  return bytes;
}

}  // namespace pagedinfer
