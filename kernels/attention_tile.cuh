// Attention of one tile of rows on tensor cores. With many rows (prompts) it is bound by mma.sync,
// with few rows (decodes) by reading K and V once.
//
// Each group of kParts warps computes kBands * 16 rows and loops over tiles of kKeys keys. Tiles of
// keys begin at absolute multiples of kKeys, so that a row goes through the same operations
// whatever shares its thread block. All warps copy keys and values asynchronously through kStages
// buffers in shared memory; keys that no row of the block sees are not read, zeros take their
// place. A tile of keys that a row does not see leaves the row unchanged: its p is 0 and its `keep`
// is 1. Every kSegmentKeys keys the softmax restarts; its state is combined into the total, or
// written out.
//
// With kInt8 rows of the cache are int8 with a scale. A thread widens what it has copied itself to
// T, into one of two buffers; no barrier is needed between. A score is multiplied by its key's
// scale and, once the softmax has summed it, p by its value's scale, times kInt8Factor: no scale is
// above 65504 / 127, so nothing overflows.
//
// Shapes without restarts (FlashAttention-2, Dao 2023) have no totals. Their registers hold two
// bands of rows instead, so that each read of K and V from shared memory serves twice as many
// products. A row's bits then depend on whether its tile is cut or not.
#pragma once

#include "kernels/attention_combine.cuh"
#include "kernels/attention_launch.h"
#include "kernels/attention_rows.cuh"
#include "kernels/int8.h"

namespace pagedinfer::kernels {
namespace {

template <int D, int kRowGroups, int kParts_, bool kRestarts_ = true, bool kInt8_ = false>
struct TileShape {
  static constexpr int kDim = D, kParts = kParts_;
  static constexpr bool kRestarts = kRestarts_, kInt8 = kInt8_;
  static constexpr int kBands = kRestarts || D > 128 ? 1 : 2;
  static constexpr int kThreads = kWarp * kRowGroups * kParts;
  static constexpr int kRows = 16 * kBands * kRowGroups;
  // Fewer where registers are scarce or, for int8, shared memory is.
  static constexpr int kKeys = D > 128 || (kBands > 1 && D != 80) || kInt8 ? 32 : 64;
  static constexpr int kStages =
      (kRowGroups == 1 && (kInt8 ? D <= 128 : D <= 96)) || (kBands > 1 && D != 80) ? 3 : 2;
  static constexpr int kStride = SharedRows<D>::kStride, kVecs = SharedRows<D>::kVecs;
  static constexpr int kTile = kKeys * kStride;
  static constexpr int kBuffers = kInt8 ? 2 : kStages;         // of keys and values as T
  static constexpr int kRawVecs = kInt8 ? kKeys * D / 16 : 0;  // of a tile of keys as int8
  static constexpr int kScales = kInt8 ? kKeys : 0;
  // 16 x 8 accumulators of a warp, for the scores and for the output.
  static constexpr int kOwnScores = 2 * ceil_div(kKeys / 16, kParts);
  static constexpr int kOut = 2 * ceil_div(D / 16, kParts);
  // Totals of earlier segments, per thread. They go to shared memory if registers would not
  // suffice.
  static constexpr int kTotals = kRestarts ? 4 * kOut : 0;
  static constexpr bool kTotalsInShared = kTotals > 64;
  static constexpr int kExchange = kParts > 1 ? 16 * kKeys / 4 : 0;  // float4
  static constexpr int kBytes =
      (kRows * kStride + kBuffers * 2 * kTile) * 2 + kStages * 2 * (kRawVecs * 16 + kScales * 4) +
      kExchange * 16 + kStages * kKeys * 4 + (kTotalsInShared ? kThreads * kTotals * 4 : 0);
  // Thread blocks of a multiprocessor with 228 KiB of shared memory, for which registers are left.
  static constexpr int kMinBlocks =
      kRowGroups == 1 || D <= 64 ? min_of(3, (228 << 10) / (kBytes + 1024)) : 1;
  static_assert(kSegmentKeys % kKeys == 0 && (kInt8 || kKeys * kVecs % kThreads == 0) &&
                kKeys <= kThreads);
  static_assert(kStride * 2 % 16 == 0 && (kParts == 1 || kRowGroups == 1));
};

template <class T, class S>
struct TileWork {
  static constexpr int D = S::kDim;
  static constexpr float kFactor = S::kInt8 ? kInt8Factor<T> : 1.0f;

  const TileArgs& a;
  const Tile& tile;
  const int32_t* block_row;
  int64_t head_base;  // first element of the head in the cache
  int kv_head;
  // In shared memory.
  T *q, *buffers;
  uint4* raw;          // (kStages, keys and values, kRawVecs)
  float* scales;       // (kStages, keys and values, kScales)
  int* key_positions;  // (kStages, kKeys)

  __device__ T* keys(int buffer) const { return buffers + buffer * 2 * S::kTile; }
  __device__ T* values(int buffer) const { return keys(buffer) + S::kTile; }
  __device__ const float* key_scales(int stage) const { return scales + stage * 2 * S::kScales; }
  __device__ float value_scale(int stage, int key) const {
    const float scale = key_scales(stage)[S::kScales + key];
    return kFactor == 1.0f ? scale : mul_rn(scale, kFactor);
  }
  // The sum of a state once all its keys are in it.
  __device__ static float whole_sum(float of_lane) {
    const float sum = row_sum(of_lane);
    return kFactor == 1.0f ? sum : mul_rn(sum, kFactor);
  }
  __device__ int position(int row) const {  // -1: past the last row, sees no key
    if (row >= tile.num_rows) return -1;
    const int first = tile.first_row / a.group;
    return tile.first_position + (tile.first_row + row) / a.group - first;
  }

  __device__ void load_q() const {
    for (int i = threadIdx.x; i < S::kRows * S::kVecs; i += S::kThreads) {
      const int row = i / S::kVecs, vec = i % S::kVecs;
      const bool valid = row < tile.num_rows;
      const T* from = static_cast<const T*>(a.q);
      copy_async(q + SharedRows<D>::offset(row, vec),
                 valid ? from + row_offset<D>(a, tile, kv_head, row, a.q_stride) + vec * 8 : from,
                 valid);
    }
  }

  // The cache position of this thread's key in the tile of keys that begins at `first`; -1: no row
  // sees it.
  __device__ int key_position(int first) const {
    const int key = first + threadIdx.x;
    const bool seen = threadIdx.x < S::kKeys && key >= tile.first_key && key < tile.end_key;
    return seen ? cache_position(block_row, a.block_divisor, key) : -1;
  }
  __device__ void store_key_position(int stage, int position) const {
    if (threadIdx.x < S::kKeys) key_positions[stage * S::kKeys + threadIdx.x] = position;
  }

  // A 16-byte vector of a tile of keys that this thread copies, and the element of shared memory
  // that it goes to.
  struct Copy {
    int row, vec, to;
  };
  __device__ static Copy copy_of(int n) {
    const int row = threadIdx.x / S::kVecs, vec = threadIdx.x % S::kVecs;
    if constexpr (S::kThreads % (8 * S::kVecs) == 0) {  // all differ by constants
      const int rows = n * (S::kThreads / S::kVecs);
      return {row + rows, vec, SharedRows<D>::offset(row, vec) + rows * S::kStride};
    }
    const int i = threadIdx.x + n * S::kThreads;
    return {i / S::kVecs, i % S::kVecs, SharedRows<D>::offset(i / S::kVecs, i % S::kVecs)};
  }

  // Starts the copies of a tile of keys. REQUIRES: store_key_position() for the stage, then a
  // barrier.
  __device__ void load_keys(int stage) const {
    if constexpr (S::kInt8) return load_raw(stage);
    constexpr int kCopies = S::kKeys * S::kVecs / S::kThreads;
    const T* const k = static_cast<const T*>(a.k) + head_base;
    const T* const v = static_cast<const T*>(a.v) + head_base;
    int positions[kCopies];  // all read first: the compiler moves no read across a copy
#pragma unroll
    for (int n = 0; n < kCopies; ++n) {
      positions[n] = key_positions[stage * S::kKeys + copy_of(n).row];
    }
#pragma unroll
    for (int n = 0; n < kCopies; ++n) {
      const Copy copy = copy_of(n);
      const bool valid = positions[n] >= 0;
      const int64_t from = int64_t(valid ? positions[n] : 0) * D;
      copy_async(keys(stage) + copy.to, k + copy.vec * 8 + from, valid);
      copy_async(values(stage) + copy.to, v + copy.vec * 8 + from, valid);
    }
  }

  __device__ void load_raw(int stage) const {
    constexpr int kOfRow = D / 16;
    const int8_t* const k = static_cast<const int8_t*>(a.k) + head_base;
    const int8_t* const v = static_cast<const int8_t*>(a.v) + head_base;
    const int* const positions = key_positions + stage * S::kKeys;
    uint4* const to = raw + stage * 2 * S::kRawVecs;
#pragma unroll
    for (int n = 0; n < ceil_div(S::kRawVecs, S::kThreads); ++n) {
      const int i = threadIdx.x + n * S::kThreads;
      if (S::kRawVecs % S::kThreads != 0 && i >= S::kRawVecs) break;
      const int position = positions[i / kOfRow];
      const int64_t from = int64_t(max_of(position, 0)) * D + i % kOfRow * 16;
      copy_async(to + i, k + from, position >= 0);
      copy_async(to + S::kRawVecs + i, v + from, position >= 0);
    }
    if (threadIdx.x < S::kKeys) {
      const int position = positions[threadIdx.x];
      const int64_t from = kv_head * a.num_positions + max_of(position, 0);
      float* const scale = scales + stage * 2 * S::kScales + threadIdx.x;
      copy_word_async(scale, a.k_scale + from, position >= 0);
      copy_word_async(scale + S::kScales, a.v_scale + from, position >= 0);
    }
  }

  // Widens the int8 that this thread has copied. REQUIRES: they have arrived.
  __device__ void widen(int stage, int buffer) const {
    constexpr int kOfRow = D / 16;
    const uint4* const from = raw + stage * 2 * S::kRawVecs;
    const auto widen_row = [&](uint4 numbers, T* rows, int row, int vec) {
      const uint32_t four[4] = {numbers.x, numbers.y, numbers.z, numbers.w};
      uint32_t pairs[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Int8Pairs both =
            std::is_same_v<T, __half> ? int8_as_f16(four[i]) : int8_as_bf16(four[i]);
        pairs[2 * i] = subtract_pair<T>(both.minuend[0], both.subtrahend[0]);
        pairs[2 * i + 1] = subtract_pair<T>(both.minuend[1], both.subtrahend[1]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<uint4*>(rows + SharedRows<D>::offset(row, 2 * vec + i)) =
            make_uint4(pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]);
      }
    };
#pragma unroll
    for (int n = 0; n < ceil_div(S::kRawVecs, S::kThreads); ++n) {
      const int i = threadIdx.x + n * S::kThreads;
      if (S::kRawVecs % S::kThreads != 0 && i >= S::kRawVecs) break;
      widen_row(from[i], keys(buffer), i / kOfRow, i % kOfRow);
      widen_row(from[S::kRawVecs + i], values(buffer), i / kOfRow, i % kOfRow);
    }
  }

  // Starts the copies of the queries and of the first kStages - 1 tiles of keys.
  __device__ void begin(int first_tile, int end_tile) const {
    int positions[S::kStages];
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) positions[i] = key_position((first_tile + i) * S::kKeys);
    load_q();
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) store_key_position(i, positions[i]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::kStages - 1; ++i) {
      if (first_tile + i < end_tile) load_keys(i);
      commit_copies();
    }
  }
};

// The part of the item that this thread block computes.
template <int kRows>
__device__ Tile own_part(const TileArgs& a, const AttentionItem& item) {
  return make_part(item, blockIdx.z * kRows, kRows, a.group, a.tile_rows, a.window);
}

// Writes the output, or the states of the segment.
template <class T, class S, class TotalAt>
__device__ void store_rows(const TileArgs& a, const float (&out)[S::kBands][S::kOut][4],
                           AttentionState (&state)[S::kBands][2], AttentionState (&total)[2],
                           const TotalAt& total_at, int kv_head, int part, int group_row) {
  constexpr int D = S::kDim;
  const int lane = threadIdx.x % kWarp;
  // Read again: in the loop, registers are scarce.
  const AttentionItem item = rows_from(a.items[blockIdx.x], blockIdx.z * S::kRows);
  const Tile tile = own_part<S::kRows>(a, a.items[blockIdx.x]);
  const bool is_state = item.state >= 0;
#pragma unroll
  for (int b = 0; b < S::kBands; ++b) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // What was summed since the last restart: everything, or the state of the segment.
      if (is_state || !S::kRestarts) state[b][i].sum = TileWork<T, S>::whole_sum(state[b][i].sum);
      const int row = group_row + b * 16 + lane / 4 + 8 * i;
      if (row >= tile.num_rows) continue;
      const int64_t index = (int64_t(item.state) + row) * a.kv_heads + kv_head;
      if (is_state && part == 0 && lane % 4 == 0) a.states[index] = state[b][i];
      AttentionState& whole = S::kRestarts ? total[i] : state[b][i];
      const float keep = is_state ? 1.0f : add_sink<T>(a, tile, kv_head, row, whole);
      const auto last = [&](float x) { return normalized(mul_rn(x, keep), whole.sum); };
      float* const state_out = a.state_outs + index * D;
      T* const to = static_cast<T*>(a.out) + row_offset<D>(a, tile, kv_head, row, a.out_stride);
#pragma unroll
      for (int n = 0; n < S::kOut; ++n) {
        const int column = (n / 2 * S::kParts + part) * 16 + n % 2 * 8 + lane % 4 * 2;
        if (column >= D) continue;
        const float* const own = out[b][n] + 2 * i;
        if (is_state) {
          *reinterpret_cast<float2*>(state_out + column) = make_float2(own[0], own[1]);
        } else if constexpr (S::kRestarts) {
          *reinterpret_cast<uint32_t*>(to + column) =
              pack_pair<T>(last(total_at(n * 4 + 2 * i)), last(total_at(n * 4 + 2 * i + 1)));
        } else {
          *reinterpret_cast<uint32_t*>(to + column) = pack_pair<T>(last(own[0]), last(own[1]));
        }
      }
    }
  }
  if (is_state) combine_if_last<T, D, S::kThreads>(a, item, tile, kv_head);
}

template <class T, int D, int kRowGroups, int kParts, bool kRestarts, bool kInt8>
__global__ void __launch_bounds__(TileShape<D, kRowGroups, kParts, kRestarts, kInt8>::kThreads,
                                  TileShape<D, kRowGroups, kParts, kRestarts, kInt8>::kMinBlocks)
    attention_tile_kernel(const TileArgs a) {
  using S = TileShape<D, kRowGroups, kParts, kRestarts, kInt8>;
  constexpr int kBands = S::kBands;
  unsigned char* const shared = dynamic_shared();
  const AttentionItem item = a.items[blockIdx.x];
  const int kv_head = blockIdx.y;
  const Tile tile = own_part<S::kRows>(a, item);
  if (tile.first_key >= tile.end_key) return;  // no rows
  const bool is_state = item.state >= 0;

  T* const q = reinterpret_cast<T*>(shared);
  T* const buffers = q + S::kRows * S::kStride;
  uint4* const raw = reinterpret_cast<uint4*>(buffers + S::kBuffers * 2 * S::kTile);
  float4* const exchange = reinterpret_cast<float4*>(raw + S::kStages * 2 * S::kRawVecs);
  float* const scales = reinterpret_cast<float*>(exchange + S::kExchange);
  int* const key_positions = reinterpret_cast<int*>(scales + S::kStages * 2 * S::kScales);
  float* const shared_totals =
      reinterpret_cast<float*>(key_positions + S::kStages * S::kKeys) + threadIdx.x;
  const TileWork<T, S> work = {a,
                               tile,
                               a.block_table + int64_t(item.seq) * a.max_blocks,
                               kv_head * a.num_positions * D,
                               kv_head,
                               q,
                               buffers,
                               raw,
                               scales,
                               key_positions};

  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int part = warp % kParts, group_row = warp / kParts * kBands * 16;
  const auto row_of = [&](int band, int i) { return group_row + band * 16 + lane / 4 + 8 * i; };
  const bool has_rows = group_row < tile.num_rows;
  AttentionState state[kBands][2], total[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    total[i] = {kMasked, 0.0f};
#pragma unroll
    for (int b = 0; b < kBands; ++b) {
      state[b][i] = {kMasked, 0.0f};
    }
  }
  float out[kBands][S::kOut][4] = {};
  float register_totals[kRestarts && !S::kTotalsInShared ? S::kTotals : 1];
  const auto total_at = [&](int i) -> float& {
    if constexpr (S::kTotalsInShared) {
      return shared_totals[i * S::kThreads];
    } else {
      return register_totals[i];
    }
  };
#pragma unroll
  for (int i = 0; i < S::kTotals; ++i) total_at(i) = 0.0f;

  const int first_tile = tile.first_key / S::kKeys;
  const int end_tile = ceil_div(tile.end_key, S::kKeys);
  work.begin(first_tile, end_tile);
  int stage = 0;
  for (int t = first_tile; t < end_tile; ++t) {
    wait_for_copies<S::kStages - 2>();
    const int buffer = kInt8 ? t % 2 : stage;
    if constexpr (kInt8) work.widen(stage, buffer);
    __syncthreads();  // tile t has arrived for all threads, tile t - 1 is no longer read
    // Loaded now because the copy that follows the next barrier needs it.
    const int next_position = work.key_position((t + S::kStages) * S::kKeys);
    if (t + S::kStages - 1 < end_tile) {
      work.load_keys(stage == 0 ? S::kStages - 1 : stage - 1);
    }
    commit_copies();
    if (has_rows) {
      const int first = t * S::kKeys, end = first + S::kKeys;
      const auto compute_scores = [&](auto& own) {
        score_keys<T, D, kParts>(own, q, group_row, work.keys(buffer), part);
        const bool all = all_visible(first, end, tile.first_position, tile.last_position, a.window);
#pragma unroll
        for (int b = 0; b < kBands; ++b) {
          for_each_score<kParts>(own[b], part, [&](float& x, int, int key) {
            if (kInt8) x = mul_rn(x, work.key_scales(stage)[key]);
            x = mul_rn(x, a.scale_log2);
          });
          if (all) continue;
          // Looked up here because registers are scarce and masked tiles are few.
          const int positions[2] = {work.position(row_of(b, 0)), work.position(row_of(b, 1))};
          const int firsts[2] = {first_visible(positions[0], a.window),
                                 first_visible(positions[1], a.window)};
          for_each_score<kParts>(own[b], part, [&](float& x, int row, int key) {
            // Bitwise, without branches: a branch per score would cost more than all the rest.
            const bool visible = (first + key >= firsts[row]) & (first + key <= positions[row]);
            x = visible ? x : kMasked;
          });
        }
      };
      float score[kBands][S::kKeys / 8][4] = {}, keep[kBands][2];
      if constexpr (kParts == 1) {
        compute_scores(score);
      } else {
        float own[kBands][S::kOwnScores][4] = {};
        if (part < S::kKeys / 16) compute_scores(own);
        share_scores<kParts>(score[0], own[0], part, exchange);
      }
#pragma unroll
      for (int b = 0; b < kBands; ++b) {
        softmax_update(score[b], state[b], keep[b]);
        if (!kInt8) continue;
        for_each_score<1>(score[b], 0, [&](float& p, int, int key) {
          // The scale of a value that the row does not see may be NaN.
          p = p == 0.0f ? 0.0f : mul_rn(p, work.value_scale(stage, key));
        });
      }
      add_values<T, D, kParts>(out, keep, score, work.values(buffer), part);

      if (kRestarts && !is_state && (end % kSegmentKeys == 0 || t + 1 == end_tile)) {
        CombineScales scales[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          state[0][i].sum = work.whole_sum(state[0][i].sum);
          scales[i] = combine(total[i], state[0][i], exp2_fast);
          state[0][i] = {kMasked, 0.0f};
        }
#pragma unroll
        for (int n = 0; n < S::kTotals / 4; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& x = total_at(n * 4 + i);
            x = combined(x, out[0][n][i], scales[i / 2]);
            out[0][n][i] = 0.0f;
          }
        }
      }
    }
    work.store_key_position(stage, next_position);  // those of tile t are no longer read
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
  }

  store_rows<T, S>(a, out, state, total, total_at, kv_head, part, group_row);
}

template <class T, int D, int kRowGroups, int kParts, bool kRestarts, bool kInt8 = false>
void launch_shape(const TileArgs& args, cudaStream_t stream) {
  using S = TileShape<D, kRowGroups, kParts, kRestarts, kInt8>;
  static_assert(kLargeTileRows % S::kRows == 0);
  const auto kernel = attention_tile_kernel<T, D, kRowGroups, kParts, kRestarts, kInt8>;
  const dim3 grid(args.num_items, args.kv_heads, args.tile_rows / S::kRows);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  launch_kernel(kernel, grid, S::kThreads, S::kBytes, stream, args);
}

template <class T, int D>
void launch_tiles_of(const TileArgs& args, cudaStream_t stream) {
  // 128 rows per block if possible: with 64 the L2 cache delivers twice the bytes and becomes the
  // limit. Not with 64 dimensions, of which more blocks fit at 64 rows; not with 80, which do not
  // divide among 256 threads; not with 256, which leave too few registers.
  constexpr int kRowGroups = D == 96 || D == 128 ? 8 : 4;
  static_assert(TileShape<D, 1, 4>::kBytes <= 99 << 10);  // every device has these
  // The bits of a row depend on the number of keys in a tile.
  static_assert(TileShape<D, 1, 4>::kKeys == TileShape<D, kRowGroups, 1>::kKeys);
  static_assert(TileShape<D, 1, 4, true, true>::kKeys == TileShape<D, 4, 1, true, true>::kKeys);
  const auto has_room = [&](int bytes) {
    return args.tile_rows == kLargeTileRows && bytes <= args.max_shared_bytes;
  };
  if (args.k_scale != nullptr) {
    static_assert(TileShape<D, 1, 4, true, true>::kBytes <= int8_tile_bytes(D));
    if (has_room(TileShape<D, 4, 1, true, true>::kBytes)) {
      launch_shape<T, D, 4, 1, true, true>(args, stream);
    } else {
      launch_shape<T, D, 1, 4, true, true>(args, stream);
    }
  } else if (!args.restarts && has_room(TileShape<D, 4, 1, false>::kBytes)) {
    launch_shape<T, D, 4, 1, false>(args, stream);
  } else if (has_room(TileShape<D, kRowGroups, 1>::kBytes)) {
    launch_shape<T, D, kRowGroups, 1, true>(args, stream);
  } else {
    launch_shape<T, D, 1, 4, true>(args, stream);
  }
}
template <int D>
void launch_tiles_of(const TileArgs& args, cudaStream_t stream) {
  args.type == Type::kBF16 ? launch_tiles_of<__nv_bfloat16, D>(args, stream)
                           : launch_tiles_of<__half, D>(args, stream);
}

}  // namespace
}  // namespace pagedinfer::kernels
