#include "ops/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/build_facts.h"
#include "core/check.h"
#include "core/error.h"
#include "kernels/attention.h"
#include "kernels/drawn_tokens.h"
#include "kernels/int8_panels.h"
#include "kernels/kv.h"
#include "kernels/sample.h"
#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/kernel_arguments.h"
#include "ops/cuda/machine_code.h"
#include "ops/cuda/step_arrays.h"
#include "ops/cuda/step_memory.h"
#include "ops/cuda/upload.h"
#include "ops/row_source.h"

namespace pagedinfer {
namespace {

constexpr int kMinCapability = 8;
// The size of the pieces in which a weight is uploaded. Each piece starts threads, and the device
// waits for the first piece.
constexpr int64_t kUploadBytes = int64_t{64} << 20;
// The alignment of weights in int8: a cache line. A panel is a multiple of it, so weights stay
// adjacent.
constexpr int64_t kInt8Alignment = 128;

// Bytes of the keys, or of the values, of one position in one layer.
struct PositionBytes {
  int64_t numbers = 0, scales = 0;
};
PositionBytes position_bytes(DType dtype, int kv_heads, int head_dim) {
  return {
      .numbers = kernels::kv_position_bytes(static_cast<int>(size_of(dtype)), kv_heads, head_dim),
      .scales = has_scales(dtype) ? kv_heads * size_of(DType::kF32) : 0};
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// What the driver says about GPUs, if there is a driver.
struct Found {
  int driver = 0;
  cudaError_t status = cudaSuccess;  // of counting
  int count = 0;

  bool none() const { return status == cudaErrorNoDevice || (status == cudaSuccess && count == 0); }
};

Found find_gpus() {
  Found found;
  static_cast<void>(cudaDriverGetVersion(&found.driver));
  found.status = cudaGetDeviceCount(&found.count);
  static_cast<void>(cudaGetLastError());
  return found;
}

}  // namespace

std::string cuda_problem() {
  const Found gpus = find_gpus();
  const cudaError_t status = gpus.status;
  if (gpus.driver == 0) return "this machine has no NVIDIA driver";
  if (status == cudaErrorInsufficientDriver) {
    int runtime = 0;
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    return fmt::format("the NVIDIA driver is for CUDA {}, this build needs {}",
                       version_text(gpus.driver), version_text(runtime));
  }
  if (gpus.none()) return "the NVIDIA driver finds no GPU";
  if (status != cudaSuccess) return fmt::format("CUDA: {}", cudaGetErrorString(status));
  cudaDeviceProp properties = {};
  if (const cudaError_t found = cudaGetDeviceProperties(&properties, 0); found != cudaSuccess) {
    return fmt::format("CUDA: {}", cudaGetErrorString(found));
  }
  if (properties.major < kMinCapability) {
    return fmt::format("{}: compute capability {}.{}, needed is {}.0", properties.name,
                       properties.major, properties.minor, kMinCapability);
  }
  return CublasLt::problem();
}

bool has_gpu() {
  const Found gpus = find_gpus();
  return gpus.driver != 0 && !gpus.none();
}

std::string cuda_first_start() {
  constexpr std::string_view kFor = " for ";
  std::string_view built = build_facts().cuda;
  const size_t at = built.find(kFor);
  if (at == built.npos || !cuda_problem().empty()) return "";
  built.remove_prefix(at + kFor.size());
  cudaDeviceProp gpu = {};
  check_cuda(cudaGetDeviceProperties(&gpu, 0), "to look at the GPU");
  if (has_machine_code(built, gpu.major, gpu.minor)) return "";
  return fmt::format(
      "the driver makes machine code for {} (compute capability {}.{}) at the first start, which "
      "takes longer",
      gpu.name, gpu.major, gpu.minor);
}

std::unique_ptr<CudaOps> make_cuda_ops(const CudaOptions& options) {
  if (const std::string problem = cuda_problem(); !problem.empty()) throw Error(problem);
  return std::make_unique<CudaBackend>(options);
}

CudaBackend::CudaBackend(const CudaOptions& options) : state_(options), capture_(stream_.get()) {
  CHECK(options.compute != DType::kI32);
}

CudaBackend::~CudaBackend() {
  // Queued work still uses the memory that is freed next.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

std::string CudaBackend::description() const {
  return fmt::format("cuda ({}, {}{})", device_.name, name_of(options_.compute),
                     options_.deterministic ? ", deterministic" : "");
}

std::optional<Capacity> CudaBackend::capacity() const {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "to ask for its memory");
  return Capacity{static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

void CudaBackend::wait(const char* what) { check_cuda(cudaStreamSynchronize(stream_.get()), what); }

void CudaBackend::reserve_weights(int64_t bytes) {
  CHECK(weights_.memory.get() == nullptr);
  constexpr int64_t kNotPlanned = int64_t{1} << 20;  // tables of a few KiB
  weights_ = CudaPiece(bytes + kNotPlanned, "weights");
  fixed_.weights = Staging(std::min(kUploadBytes, bytes + kNotPlanned));
}

void CudaBackend::reserve_kv(int64_t bytes) {
  CHECK(kv_.memory.get() == nullptr);
  kv_ = CudaPiece(align_up(bytes, DeviceArena::kStepAlignment), "the KV cache");
}

void CudaBackend::reserve_steps(const StepBounds& bounds, int64_t bytes) {
  CHECK(steps_.memory.get() == nullptr);
  bounds_ = bounds;
  steps_ = CudaPiece(bytes, "steps");

  constexpr int64_t kAligned = DeviceArena::kStepAlignment;
  const StepMemory planned(bounds, options_.compute);
  arithmetic_.reserve(planned);
  fixed_.sample_bytes = planned.sample_lists;
  fixed_.array_bytes = align_up(planned.arrays, kAligned);
  fixed_.arrays = steps_.take(fixed_.array_bytes + fixed_.sample_bytes, kAligned, "a batch");
  fixed_.mask_bytes = planned.masks;
  fixed_.masks = steps_.take(fixed_.mask_bytes, kAligned, "masks of tokens");
  for (Drawn& drawn : fixed_.drawn) {
    const int64_t size = planned.drawn / std::ssize(fixed_.drawn);
    drawn.block = steps_.take(size, kAligned, "sampling");
    drawn.on_host = take_pinned(size, "for sampled tokens");
    drawn.is_copied = make_event();
  }
  char* const copies = steps_.take(planned.copies, kAligned, "copies in the cache");
  fixed_.copy_arrays = reinterpret_cast<int32_t*>(copies);
  fixed_.copies = Staging(planned.copies);
  fixed_.step = Staging(fixed_.array_bytes + fixed_.sample_bytes);
  fixed_.samples = Staging(fixed_.sample_bytes);
}

int64_t CudaBackend::workspace_bytes(const StepBounds& bounds) const {
  return StepMemory(bounds, options_.compute).total();
}

Tensor CudaBackend::allocate(DType dtype, int64_t rows, int64_t cols) {
  const int64_t bytes = rows * cols * size_of(dtype);
  char* const data = weights_.take(bytes, DeviceArena::kPermanentAlignment, "a tensor");
  check_cuda(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream_.get()), "a tensor");
  return {data, dtype, rows, cols, cols};
}

Tensor CudaBackend::upload(Tensor host, DType dtype) {
  char* const data = weights_.take(host.rows * host.cols * size_of(dtype),
                                   DeviceArena::kPermanentAlignment, "a weight");
  upload_rows(host, dtype, data, fixed_.weights, stream_.get());
  return {data, dtype, host.rows, host.cols, host.cols};
}

Tensor CudaBackend::upload_matrix(Tensor host, DType dtype) {
  return dtype == DType::kI8 ? upload_matrix(stored_rows(host), dtype) : upload(host, dtype);
}

Tensor CudaBackend::upload_matrix(const RowSource& source, DType dtype) {
  const int64_t rows = source.rows, cols = source.cols;
  if (dtype != DType::kI8) {
    char* const data =
        weights_.take(rows * cols * size_of(dtype), DeviceArena::kPermanentAlignment, "a weight");
    upload_rows(source, dtype, data, fixed_.weights, stream_.get());
    return {data, dtype, rows, cols, cols};
  }
  const int64_t panel = kernels::int8_weight_panel_bytes(cols);
  char* const data = weights_.take(kernels::int8_panels(rows) * panel, kInt8Alignment, "a weight");
  upload_int8(source, data, fixed_.weights, stream_.get());
  return {data, dtype, rows, cols, panel, Layout::kPanels};
}

int64_t CudaBackend::matrix_bytes(Tensor host, DType dtype) const {
  if (dtype != DType::kI8) return uploaded_bytes(host, dtype);
  // With the gap before it.
  return kernels::int8_panels(host.rows) * kernels::int8_weight_panel_bytes(host.cols) +
         kInt8Alignment - DeviceArena::kPermanentAlignment;
}

int64_t CudaBackend::uploaded_bytes(Tensor host, DType dtype) const {
  return align_up(host.rows * host.cols * size_of(dtype), DeviceArena::kPermanentAlignment);
}

KvLayer CudaBackend::allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) {
  CHECK(dtype == options_.compute || has_scales(dtype));
  const int64_t rows = kv_heads * num_positions;
  const auto tensor = [&](DType type, int64_t cols) {
    char* const data =
        kv_.take(rows * cols * size_of(type), DeviceArena::kStepAlignment, "the KV cache");
    return Tensor{data, type, rows, cols, cols};
  };
  const int64_t cols = kernels::kv_row_elements(head_dim, static_cast<int>(size_of(dtype)));
  const Tensor k = tensor(dtype, cols), v = tensor(dtype, cols);
  KvLayer layer = {k, v, kv_heads, head_dim, num_positions};
  if (!has_scales(dtype)) return layer;
  layer.k_scale = tensor(DType::kF32, 1);
  layer.v_scale = tensor(DType::kF32, 1);
  return layer;
}

// Graphs that were captured for one cache are invalid for the next.
void CudaBackend::clear_kv() {
  graphs_.forget(capture_);
  kv_.arena = DeviceArena(kv_.arena.size());
}

int64_t CudaBackend::kv_bytes(DType dtype, int kv_heads, int head_dim,
                              int64_t num_positions) const {
  const PositionBytes position = position_bytes(dtype, kv_heads, head_dim);
  const auto rounded = [](int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); };
  return 2 * (rounded(position.numbers * num_positions) + rounded(position.scales * num_positions));
}

int64_t CudaBackend::kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const {
  const PositionBytes position = position_bytes(dtype, kv_heads, head_dim);
  return 2 * (position.numbers + position.scales);
}

Tensor CudaBackend::scratch(DType dtype, int64_t rows, int64_t cols) {
  return {steps_.take_step(rows * cols * size_of(dtype), "the activations"), dtype, rows, cols,
          cols};
}

BatchView CudaBackend::stage(const Batch& batch) {
  steps_.arena.end_step();
  const std::span<const SampleRow> rows = std::exchange(expected_, {});
  plan_step(batch, bounds_, attention_limits(bounds_, device_.multiProcessorCount), step_.plans);
  step_.shape = shape_of(batch, step_.plans);
  if (options_.graphs && only_decodes(step_.shape)) step_.shape = padded(step_.shape, bounds_);
  step_.at = lay_out(step_.shape);
  const StepArrays& at = step_.at;
  const int64_t bytes = at.size * int64_t{sizeof(int32_t)};
  if (bytes > fixed_.array_bytes) {
    throw Error(
        fmt::format("a step's arrays take {} bytes, planned were {}", bytes, fixed_.array_bytes));
  }
  auto* const packed = reinterpret_cast<int32_t*>(fixed_.arrays);
  step_.arrays = packed;
  char* const host = fixed_.step.next();
  pack(batch, step_.plans, step_.shape, reinterpret_cast<int32_t*>(host));
  // The settings follow if all of them fit.
  sent_rows_ = {};
  int64_t sent = bytes;
  if (!rows.empty() &&
      sample_arrays_.fill(rows, 0, bounds_.vocab, fixed_.sample_bytes) == rows.size() &&
      sample_arrays_.masks.empty()) {
    const int64_t offset = align_up(bytes, DeviceArena::kStepAlignment);
    sample_arrays_.pack(host + offset);
    sent = offset + sample_arrays_.layout().bytes;
    sent_rows_ = rows;
    row_settings_ = fixed_.arrays + offset;
  }
  fixed_.step.send(packed, sent, stream_.get());
  const auto is_placeholder = [](TokenId token) { return token < 0; };
  if (std::ranges::any_of(batch.tokens, is_placeholder)) {
    const Drawn& drawn = fixed_.drawn[latest_ % 2];
    CHECK(-1 - *std::ranges::min_element(batch.tokens) < std::ssize(drawn.arrays));
    kernels::launch_resolve_tokens({packed + at.tokens.first, drawn.tokens(), at.tokens.count},
                                   stream_.get());
    check_cuda(cudaGetLastError(), "a step");
  }

  const auto column = [&](const PackedRange& range) {
    return Tensor{packed + range.first, DType::kI32, range.count, 1, 1};
  };
  // Layers run one after the other and share one workspace.
  int64_t states = 0;
  for (const PlanShape& plan : step_.shape.plans) states = std::max(states, plan.states);
  const int64_t workspace = bounds_.kv_heads == 0 ? 0
                                                  : kernels::attention_workspace_bytes(
                                                        states, bounds_.kv_heads, bounds_.head_dim);
  step_.attention_workspace = steps_.take_step(workspace, "attention");
  return {.copies = batch.copies,
          .tokens = column(at.tokens),
          .positions = column(at.positions),
          .slot_mapping = column(at.slot_mapping),
          .query_starts = column(at.query_starts),
          .context_lens = column(at.context_lens),
          .block_table = column(at.block_table),
          .logit_tokens = column(at.logit_tokens),
          .max_blocks = static_cast<int>(step_.shape.max_blocks),
          .block_size = batch.block_size};
}

Tensor CudaBackend::run(const BatchView& batch, const std::function<Tensor()>& queue) {
  CHECK(batch.tokens.data == step_.arrays);
  if (!may_replay()) return queue();
  const int64_t before = steps_.arena.step();
  const Queued queued = graphs_.run(step_.shape, capture_, [&] {
    steps_.arena.return_to(before);  // a failed capture has taken scratch memory
    const Tensor out = queue();
    return Queued{.arrays = step_.arrays,
                  .attention_workspace = step_.attention_workspace,
                  .scratch_begin = before,
                  .scratch_bytes = steps_.arena.step() - before,
                  .out = out};
  });
  // A graph holds the addresses of the batch, so these must not change.
  CHECK(queued.arrays == step_.arrays && queued.scratch_begin == before);
  CHECK(queued.attention_workspace == step_.attention_workspace);
  steps_.arena.return_to(before);
  static_cast<void>(steps_.take_step(queued.scratch_bytes, "the activations"));
  return queued.out;
}

void CudaBackend::copy_kv(const BatchView& batch, std::span<const KvLayer> cache) {
  for (size_t first = 0; first < batch.copies.size(); first += kCopiesAtOnce) {
    const auto copies =
        batch.copies.subspan(first, std::min<size_t>(kCopiesAtOnce, batch.copies.size() - first));
    const size_t count = copies.size();
    auto* const host = reinterpret_cast<int32_t*>(fixed_.copies.next());
    for (size_t i = 0; i < count; ++i) {
      host[i] = copies[i].source;
      host[count + i] = copies[i].destination;
      host[2 * count + i] = copies[i].count;
    }
    fixed_.copies.send(fixed_.copy_arrays, static_cast<int64_t>(3 * count * sizeof(int32_t)),
                       stream_.get());
    for (const KvLayer& layer : cache) {
      kernels::launch_copy_kv({.type = type_of(options_.compute),
                               .from = fixed_.copy_arrays,
                               .to = fixed_.copy_arrays + count,
                               .counts = fixed_.copy_arrays + 2 * count,
                               .num_copies = static_cast<int>(count),
                               .cache = cache_of(layer)},
                              stream_.get());
    }
    check_cuda(cudaGetLastError(), "copies in the cache");
  }
}

const uint32_t* CudaBackend::send_masks(int64_t vocab) {
  if (sample_arrays_.masks.empty()) return nullptr;
  CHECK(vocab <= bounds_.vocab);
  constexpr const char* kWhat = "masks of tokens";
  Staging& staging = fixed_.mask_staging;
  if (staging.bytes() == 0) {
    staging = Staging(fixed_.mask_bytes);
    fixed_.mask_stream = make_stream();
    fixed_.masks_are_read = make_event();
  }
  const cudaStream_t stream = fixed_.mask_stream.get();
  sample_arrays_.pack_masks(staging.next(), vocab);
  check_cuda(cudaStreamWaitEvent(stream, fixed_.masks_are_read.get()), kWhat);
  const cudaEvent_t sent = staging.send(fixed_.masks, sample_arrays_.mask_bytes(vocab), stream);
  check_cuda(cudaStreamWaitEvent(stream_.get(), sent), kWhat);
  return reinterpret_cast<const uint32_t*>(fixed_.masks);
}

StepProtocol::Ticket CudaBackend::sample(Tensor logits, std::span<const SampleRow> rows) {
  CHECK(std::ssize(rows) <= bounds_.sequences && logits.rows <= bounds_.sequences);
  for (const SampleRow& row : rows) CHECK(row.logits_row < logits.rows);
  CHECK(logits.dtype == DType::kF32);
  const bool came_with_batch = !rows.empty() && rows.data() == sent_rows_.data() &&
                               rows.size() == sent_rows_.size() && logits.cols == bounds_.vocab;
  sent_rows_ = {};
  const Drawn& before = fixed_.drawn[latest_ % 2];
  Drawn& drawn = fixed_.drawn[(latest_ + 1) % 2];
  const DrawnLayout out(bounds_.sequences);
  DrawnArrays arrays;
  arrays.set(rows);
  const auto array_at = [&]<class T>(T*& to, int64_t offset, size_t first) {
    to = reinterpret_cast<T*>(drawn.block + offset) + first;
  };
  size_t num_candidates = 0;  // of the launches before
  char* const workspace =
      steps_.take_step(kernels::sample_workspace_bytes(std::ssize(rows), logits.cols), "sampling");
  for (size_t first = 0; first < rows.size();) {
    char* settings = row_settings_;
    size_t count = rows.size();
    if (!came_with_batch) {
      settings = fixed_.arrays + fixed_.array_bytes;
      count = sample_arrays_.fill(rows, first, logits.cols, fixed_.sample_bytes);
      sample_arrays_.pack(fixed_.samples.next());
      fixed_.samples.send(settings, sample_arrays_.layout().bytes, stream_.get());
    }
    const SampleArrays::Layout at = sample_arrays_.layout();
    const auto place = [&]<class T>(const T*& to, int64_t offset) {
      to = reinterpret_cast<const T*>(settings + offset);
    };
    kernels::SampleArgs args = {};
    args.logits = logits.row<float>(0);
    args.stride = logits.stride;
    args.num_rows = static_cast<int>(count);
    args.vocabulary = static_cast<int>(logits.cols);
    place(args.rows, 0);
    place(args.biases, at.biases);
    place(args.tokens, at.tokens);
    args.masks = send_masks(logits.cols);
    args.drawn = before.tokens();
    args.any_adjusted = sample_arrays_.any_adjusted;
    args.any_drawn = sample_arrays_.any_drawn;
    args.any_filtered = sample_arrays_.any_filtered;
    args.any_candidates_in_mask = sample_arrays_.any_candidates_in_mask;
    args.out = drawn.tokens() + first;
    if (sample_arrays_.any_report) {
      array_at(args.report.drawn, out.logits, first);
      array_at(args.report.rows, out.rows, first);
      array_at(args.report.candidates, out.candidates, num_candidates);
      args.report.listed = reinterpret_cast<float*>(settings + at.bytes);
    }
    args.workspace = workspace;
    kernels::launch_sample(args, stream_.get());
    check_cuda(cudaGetLastError(), "sampling");
    if (args.masks != nullptr) {
      check_cuda(cudaEventRecord(fixed_.masks_are_read.get(), stream_.get()), "sampling");
    }
    first += count;
    num_candidates += sample_arrays_.num_candidates;
  }
  check_cuda(
      cudaMemcpyAsync(drawn.on_host.get(), drawn.block, static_cast<size_t>(arrays.bytes(out)),
                      cudaMemcpyDeviceToHost, stream_.get()),
      "sampling");
  check_cuda(cudaEventRecord(drawn.is_copied.get(), stream_.get()), "sampling");
  drawn.arrays = std::move(arrays);
  return ++latest_;
}

void CudaBackend::collect(Ticket ticket, std::span<DrawnToken> out) {
  CHECK(ticket > 0 && ticket > latest_ - 2 && ticket <= latest_);
  const Drawn& drawn = fixed_.drawn[ticket % 2];
  // Does not wait for the stream, in which the next step follows.
  check_cuda(cudaEventSynchronize(drawn.is_copied.get()), "a step");
  drawn.arrays.read(DrawnLayout(bounds_.sequences), drawn.on_host.get(), out);
}

void CudaBackend::read(Tensor from, void* to) {
  const auto row_bytes = static_cast<size_t>(from.cols * size_of(from.dtype));
  check_cuda(cudaMemcpy2DAsync(
                 to, row_bytes, from.data, static_cast<size_t>(from.stride * size_of(from.dtype)),
                 row_bytes, static_cast<size_t>(from.rows), cudaMemcpyDeviceToHost, stream_.get()),
             "a copy from the GPU");
  wait("a copy from the GPU");
}

void CudaBackend::write(const void* from, Tensor to) {
  const auto row_bytes = static_cast<size_t>(to.cols * size_of(to.dtype));
  check_cuda(cudaMemcpy2DAsync(to.data, static_cast<size_t>(to.stride * size_of(to.dtype)), from,
                               row_bytes, row_bytes, static_cast<size_t>(to.rows),
                               cudaMemcpyHostToDevice, stream_.get()),
             "a copy to the GPU");
  wait("a copy to the GPU");
}

}  // namespace pagedinfer
