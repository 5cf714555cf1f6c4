// A thread handles 16 bytes of one row, or one element if rows are not aligned. Bound by memory.
#include "kernels/common.cuh"
#include "kernels/elementwise.h"
#include "kernels/exact_math.h"

namespace pagedinfer::kernels {
namespace {

// Calls f(row, column) for every kVec-th column of every row.
template <int kVec, class F>
__global__ void row_kernel(const F f, int64_t cols) {
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kVec;
  if (column < cols) f(int64_t{blockIdx.x}, column);
}

template <int kVec, class F>
void launch_rows(const F& f, int64_t num_rows, int64_t cols, cudaStream_t stream) {
  const int64_t vecs = cols / kVec;
  const int threads = vecs >= 256 ? 256 : static_cast<int>((vecs + kWarp - 1) / kWarp * kWarp);
  const dim3 grid(static_cast<unsigned>(num_rows),
                  static_cast<unsigned>((vecs + threads - 1) / threads));
  launch_kernel(row_kernel<kVec, F>, grid, threads, 0, stream, f, cols);
}

template <class T>
__device__ T* at(Matrix m, int64_t row, int64_t column) {
  return static_cast<T*>(m.data) + row * m.stride + column;
}

template <class T, int kVec>
struct Embed {
  EmbedArgs a;
  __device__ void operator()(int64_t row, int64_t column) const {
    auto x = load_vec<kVec>(at<const T>(a.table, a.tokens[row], column));
#pragma unroll
    for (int i = 0; i < kVec; ++i) x.at[i] = from_float<T>(to_float(x.at[i]) * a.scale);
    store_vec(at<T>(a.out, row, column), x);
  }
};

template <class T, int kVec>
struct GatherRows {
  GatherRowsArgs a;
  __device__ void operator()(int64_t row, int64_t column) const {
    store_vec(at<T>(a.out, row, column), load_vec<kVec>(at<const T>(a.x, a.indices[row], column)));
  }
};

template <class T, int kVec>
struct Add {
  AddArgs a;
  __device__ void operator()(int64_t row, int64_t column) const {
    T* const to = at<T>(a.x, row, column);
    auto x = load_vec<kVec>(to);
    const auto y = load_vec<kVec>(at<const T>(a.y, a.y_is_one_row ? 0 : row, column));
#pragma unroll
    for (int i = 0; i < kVec; ++i) x.at[i] = from_float<T>(to_float(x.at[i]) + to_float(y.at[i]));
    store_vec(to, x);
  }
};

// x = f(x) for the elements from `at` on.
template <class T, int kVec, class F>
__device__ void apply(T* at, const F& f) {
  auto x = load_vec<kVec>(at);
#pragma unroll
  for (int i = 0; i < kVec; ++i) x.at[i] = from_float<T>(f(to_float(x.at[i])));
  store_vec(at, x);
}

template <class T, int kVec>
struct Scale {
  ScaleArgs a;
  __device__ void operator()(int64_t row, int64_t column) const {
    apply<T, kVec>(at<T>(a.x, row, column), [&](float x) { return x * a.factor; });
  }
};

template <class T, int kVec>
struct Softcap {
  SoftcapArgs a;
  __device__ void operator()(int64_t row, int64_t column) const {
    apply<T, kVec>(at<T>(a.x, row, column), [&](float x) { return softcap(x, a.cap); });
  }
};

__device__ float silu(float x) { return x / (1.0f + expf(-x)); }
// GELU in its tanh form (Hendrycks and Gimpel 2016), with u = sqrt(2/pi) (x + 0.044715 x^3):
// x/2 (1 + tanh u) = x / (1 + exp(-2u)).
__device__ float gelu_tanh(float x) {
  return x / (1.0f + expf(x * (-1.5957691216057308f - 0.07135481627260025f * (x * x))));
}

template <class T, int kVec>
struct Gate {
  GateArgs a;
  __device__ void operator()(int64_t row, int64_t column) const {
    auto x = load_vec<kVec>(at<const T>(a.gate, row, column));
    const auto up = load_vec<kVec>(at<const T>(a.up, row, column));
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float gate = to_float(x.at[i]);
      x.at[i] = from_float<T>((a.gelu_tanh ? gelu_tanh(gate) : silu(gate)) * to_float(up.at[i]));
    }
    store_vec(at<T>(a.out, row, column), x);
  }
};

template <template <class, int> class F, class Args>
void launch(const Args& args, bool vectors, cudaStream_t stream) {
  if (args.num_rows == 0 || args.cols == 0) return;
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    if (vectors) {
      launch_rows<kVecElements<T>>(F<T, kVecElements<T>>{args}, args.num_rows, args.cols, stream);
    } else {
      launch_rows<1>(F<T, 1>{args}, args.num_rows, args.cols, stream);
    }
  });
}

}  // namespace

void launch_embed(const EmbedArgs& args, cudaStream_t stream) {
  const auto fits = [&](Matrix m) { return in_vectors(args.type, m, args.cols); };
  launch<Embed>(args, fits(args.table) && fits(args.out), stream);
}

void launch_gather_rows(const GatherRowsArgs& args, cudaStream_t stream) {
  const auto fits = [&](Matrix m) { return in_vectors(args.type, m, args.cols); };
  launch<GatherRows>(args, fits(args.x) && fits(args.out), stream);
}

void launch_add(const AddArgs& args, cudaStream_t stream) {
  const auto fits = [&](Matrix m) { return in_vectors(args.type, m, args.cols); };
  launch<Add>(args, fits(args.x) && fits(args.y), stream);
}

void launch_scale(const ScaleArgs& args, cudaStream_t stream) {
  launch<Scale>(args, in_vectors(args.type, args.x, args.cols), stream);
}

void launch_softcap(const SoftcapArgs& args, cudaStream_t stream) {
  launch<Softcap>(args, in_vectors(args.type, args.x, args.cols), stream);
}

void launch_gate(const GateArgs& args, cudaStream_t stream) {
  const auto fits = [&](Matrix m) { return in_vectors(args.type, m, args.cols); };
  launch<Gate>(args, fits(args.gate) && fits(args.up) && fits(args.out), stream);
}

}  // namespace pagedinfer::kernels
