#include "ops/cuda/cuda_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "kernels/attention.h"
#include "kernels/drawn_tokens.h"
#include "kernels/kv.h"
#include "kernels/sample.h"
#include "ops/cuda/kernel_arguments.h"
#include "ops/cuda/step_arrays.h"

namespace pagedinfer {

void CudaSteps::reserve(const StepMemory& planned) {
  constexpr int64_t kAligned = DeviceArena::kStepAlignment;
  CudaPiece& memory = state_.step_piece;
  sample_bytes_ = planned.sample_lists;
  array_bytes_ = align_up(planned.arrays, kAligned);
  arrays_ = memory.take(array_bytes_ + sample_bytes_, kAligned, "a batch");
  mask_bytes_ = planned.masks;
  masks_ = memory.take(mask_bytes_, kAligned, "masks of tokens");
  for (Drawn& drawn : drawn_) {
    const int64_t size = planned.drawn / std::ssize(drawn_);
    drawn.block = memory.take(size, kAligned, "sampling");
    drawn.on_host = take_pinned(size, "for sampled tokens");
    drawn.is_copied = make_event();
  }
  char* const copies = memory.take(planned.copies, kAligned, "copies in the cache");
  copy_arrays_ = reinterpret_cast<int32_t*>(copies);
  copy_staging_ = Staging(planned.copies);
  array_staging_ = Staging(array_bytes_ + sample_bytes_);
  sample_staging_ = Staging(sample_bytes_);
}

Tensor CudaSteps::scratch(DType dtype, int64_t rows, int64_t cols) {
  return {state_.step_piece.take_step(rows * cols * size_of(dtype), "the activations"), dtype, rows,
          cols, cols};
}

BatchView CudaSteps::stage(const Batch& batch) {
  CudaState::Step& step = state_.step;
  const AttentionShape& attention = state_.options.attention;
  const StepBounds& bounds = state_.bounds;
  state_.step_piece.arena.end_step();
  const std::span<const SampleRow> rows = std::exchange(expected_, {});
  plan_step(batch, attention,
            attention_limits(attention, bounds, state_.device.multiProcessorCount), step.plans);
  step.shape = shape_of(batch, step.plans);
  if (state_.options.graphs && only_decodes(step.shape)) {
    step.shape = padded(step.shape, attention, bounds);
  }
  step.at = lay_out(step.shape);
  const StepArrays& at = step.at;
  const int64_t bytes = at.size * int64_t{sizeof(int32_t)};
  if (bytes > array_bytes_) {
    throw Error(fmt::format("a step's arrays take {} bytes, planned were {}", bytes, array_bytes_));
  }
  auto* const packed = reinterpret_cast<int32_t*>(arrays_);
  step.arrays = packed;
  char* const host = array_staging_.next();
  pack(batch, step.plans, step.shape, reinterpret_cast<int32_t*>(host));
  // The settings follow if all of them fit.
  sent_rows_ = {};
  int64_t sent = bytes;
  if (!rows.empty() && sample_arrays_.fill(rows, 0, bounds.vocab, sample_bytes_) == rows.size() &&
      sample_arrays_.masks.empty()) {
    const int64_t offset = align_up(bytes, DeviceArena::kStepAlignment);
    sample_arrays_.pack(host + offset);
    sent = offset + sample_arrays_.layout().bytes;
    sent_rows_ = rows;
    row_settings_ = arrays_ + offset;
  }
  array_staging_.send(packed, sent, state_.stream.get());
  const auto is_placeholder = [](TokenId token) { return token < 0; };
  if (std::ranges::any_of(batch.tokens, is_placeholder)) {
    const Drawn& drawn = drawn_[latest_ % 2];
    CHECK(-1 - *std::ranges::min_element(batch.tokens) < std::ssize(drawn.arrays));
    kernels::launch_resolve_tokens({packed + at.tokens.first, drawn.tokens(), at.tokens.count},
                                   state_.stream.get());
    check_cuda(cudaGetLastError(), "a step");
  }

  const auto column = [&](const PackedRange& range) {
    return Tensor{packed + range.first, DType::kI32, range.count, 1, 1};
  };
  // Layers run one after the other and share one workspace.
  int64_t states = 0;
  for (const PlanShape& plan : step.shape.plans) states = std::max(states, plan.states);
  const int64_t workspace =
      kernels::attention_workspace_bytes(states, attention.kv_heads, attention.head_dim);
  step.attention_workspace = state_.step_piece.take_step(workspace, "attention");
  return {.copies = batch.copies,
          .tokens = column(at.tokens),
          .positions = column(at.positions),
          .slot_mapping = column(at.slot_mapping),
          .query_starts = column(at.query_starts),
          .context_lens = column(at.context_lens),
          .block_table = column(at.block_table),
          .logit_tokens = column(at.logit_tokens),
          .max_blocks = static_cast<int>(step.shape.max_blocks),
          .block_size = batch.block_size};
}

Tensor CudaSteps::run(const BatchView& batch, const std::function<Tensor()>& queue) {
  const CudaState::Step& step = state_.step;
  DeviceArena& arena = state_.step_piece.arena;
  CHECK(batch.tokens.data == step.arrays);
  if (!may_replay()) return queue();
  const int64_t before = arena.step();
  const Queued queued = graphs_.run(step.shape, capture_, [&] {
    arena.return_to(before);  // a failed capture has taken scratch memory
    const Tensor out = queue();
    return Queued{.arrays = step.arrays,
                  .attention_workspace = step.attention_workspace,
                  .scratch_begin = before,
                  .scratch_bytes = arena.step() - before,
                  .out = out};
  });
  // A graph holds the addresses of the batch, so these must not change.
  CHECK(queued.arrays == step.arrays && queued.scratch_begin == before);
  CHECK(queued.attention_workspace == step.attention_workspace);
  arena.return_to(before);
  static_cast<void>(state_.step_piece.take_step(queued.scratch_bytes, "the activations"));
  return queued.out;
}

void CudaSteps::copy_kv(const BatchView& batch, std::span<const KvLayer> cache) {
  for (size_t first = 0; first < batch.copies.size(); first += kCopiesAtOnce) {
    const auto copies =
        batch.copies.subspan(first, std::min<size_t>(kCopiesAtOnce, batch.copies.size() - first));
    const size_t count = copies.size();
    auto* const host = reinterpret_cast<int32_t*>(copy_staging_.next());
    for (size_t i = 0; i < count; ++i) {
      host[i] = copies[i].source;
      host[count + i] = copies[i].destination;
      host[2 * count + i] = copies[i].count;
    }
    copy_staging_.send(copy_arrays_, static_cast<int64_t>(3 * count * sizeof(int32_t)),
                       state_.stream.get());
    for (const KvLayer& layer : cache) {
      kernels::launch_copy_kv({.type = type_of(state_.options.compute),
                               .from = copy_arrays_,
                               .to = copy_arrays_ + count,
                               .counts = copy_arrays_ + 2 * count,
                               .num_copies = static_cast<int>(count),
                               .cache = cache_of(layer)},
                              state_.stream.get());
    }
    check_cuda(cudaGetLastError(), "copies in the cache");
  }
}

const uint32_t* CudaSteps::send_masks(int64_t vocab) {
  if (sample_arrays_.masks.empty()) return nullptr;
  CHECK(vocab <= state_.bounds.vocab);
  constexpr const char* kWhat = "masks of tokens";
  Staging& staging = mask_staging_;
  if (staging.bytes() == 0) {
    staging = Staging(mask_bytes_);
    mask_stream_ = make_stream();
    masks_are_read_ = make_event();
  }
  const cudaStream_t stream = mask_stream_.get();
  sample_arrays_.pack_masks(staging.next(), vocab);
  check_cuda(cudaStreamWaitEvent(stream, masks_are_read_.get()), kWhat);
  const cudaEvent_t sent = staging.send(masks_, sample_arrays_.mask_bytes(vocab), stream);
  check_cuda(cudaStreamWaitEvent(state_.stream.get(), sent), kWhat);
  return reinterpret_cast<const uint32_t*>(masks_);
}

StepProtocol::Ticket CudaSteps::sample(Tensor logits, std::span<const SampleRow> rows) {
  CHECK(std::ssize(rows) <= state_.bounds.sequences && logits.rows <= state_.bounds.sequences);
  for (const SampleRow& row : rows) CHECK(row.logits_row < logits.rows);
  CHECK(logits.dtype == DType::kF32);
  const bool came_with_batch = !rows.empty() && rows.data() == sent_rows_.data() &&
                               rows.size() == sent_rows_.size() &&
                               logits.cols == state_.bounds.vocab;
  sent_rows_ = {};
  const Drawn& before = drawn_[latest_ % 2];
  Drawn& drawn = drawn_[(latest_ + 1) % 2];
  const DrawnLayout out(state_.bounds.sequences);
  DrawnArrays arrays;
  arrays.set(rows);
  const auto array_at = [&]<class T>(T*& to, int64_t offset, size_t first) {
    to = reinterpret_cast<T*>(drawn.block + offset) + first;
  };
  size_t num_candidates = 0;  // of the launches before
  char* const workspace = state_.step_piece.take_step(
      kernels::sample_workspace_bytes(std::ssize(rows), logits.cols), "sampling");
  for (size_t first = 0; first < rows.size();) {
    char* settings = row_settings_;
    size_t count = rows.size();
    if (!came_with_batch) {
      settings = arrays_ + array_bytes_;
      count = sample_arrays_.fill(rows, first, logits.cols, sample_bytes_);
      sample_arrays_.pack(sample_staging_.next());
      sample_staging_.send(settings, sample_arrays_.layout().bytes, state_.stream.get());
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
    kernels::launch_sample(args, state_.stream.get());
    check_cuda(cudaGetLastError(), "sampling");
    if (args.masks != nullptr) {
      check_cuda(cudaEventRecord(masks_are_read_.get(), state_.stream.get()), "sampling");
    }
    first += count;
    num_candidates += sample_arrays_.num_candidates;
  }
  check_cuda(
      cudaMemcpyAsync(drawn.on_host.get(), drawn.block, static_cast<size_t>(arrays.bytes(out)),
                      cudaMemcpyDeviceToHost, state_.stream.get()),
      "sampling");
  check_cuda(cudaEventRecord(drawn.is_copied.get(), state_.stream.get()), "sampling");
  drawn.arrays = std::move(arrays);
  return ++latest_;
}

void CudaSteps::collect(Ticket ticket, std::span<DrawnToken> out) {
  CHECK(ticket > 0 && ticket > latest_ - 2 && ticket <= latest_);
  const Drawn& drawn = drawn_[ticket % 2];
  // Does not wait for the stream, in which the next step follows.
  check_cuda(cudaEventSynchronize(drawn.is_copied.get()), "a step");
  drawn.arrays.read(DrawnLayout(state_.bounds.sequences), drawn.on_host.get(), out);
}

}  // namespace pagedinfer
