// The instructions of kernels/tensor_core.cuh, by their definition.
#pragma once

#include <cstdlib>

#include "kernels/common.cuh"

namespace pagedinfer::kernels {

inline bool is_vector(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

inline void copy_async(void* to, const void* from, bool valid) {
  if (!is_vector(to) || !is_vector(from)) std::abort();
  emulated::copy_async(to, from, 16, valid);
}
inline void copy_word_async(void* to, const void* from, bool valid) {
  if (reinterpret_cast<uintptr_t>(to) % 4 != 0 || reinterpret_cast<uintptr_t>(from) % 4 != 0) {
    std::abort();
  }
  emulated::copy_async(to, from, 4, valid);
}
inline void commit_copies() { emulated::commit_copies(); }
template <int kPending>
void wait_for_copies() {
  emulated::wait_for_copies(kPending);
}

inline void load_matrices(uint32_t (&r)[4], const void* row, bool transposed) {
  if (!is_vector(row)) std::abort();
  const char* const all = emulated::exchange(~0u, &row, sizeof row);
  const int g = emulated::lane() / 4, t = emulated::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    uint32_t element[2];
    for (int j = 0; j < 2; ++j) {
      const int from_row = transposed ? 2 * t + j : g, column = transposed ? g : 2 * t + j;
      element[j] = emulated::from_lane<const uint16_t*>(all, 8 * i + from_row)[column];
    }
    r[i] = element[0] | element[1] << 16;
  }
}
inline void load_matrices(uint32_t (&r)[4], const void* row) { load_matrices(r, row, false); }
inline void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  load_matrices(r, row, true);
}

// The two numbers of a word.
template <class T>
void widen(uint32_t word, double* to) {
  for (int i = 0; i < 2; ++i, word >>= 16) {
    const uint16_t bits = static_cast<uint16_t>(word);
    T x;
    std::memcpy(static_cast<void*>(&x), &bits, 2);
    to[i] = to_float(x);
  }
}
struct Operands {
  uint32_t at[6];
};
// Those of another lane, as word(lane, i).
inline auto exchange_operands(const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const Operands mine = {{a[0], a[1], a[2], a[3], b0, b1}};
  const char* const all = emulated::exchange(~0u, &mine, sizeof mine);
  return [all](int lane, int i) { return emulated::from_lane<Operands>(all, lane).at[i]; };
}
template <class T>
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const auto word = exchange_operands(a, b0, b1);
  double rows[2][16], columns[2][16];
  for (int i = 0; i < 2; ++i) {
    const int first = emulated::lane() / 4 * 4, column = emulated::lane() % 4 * 2 + i;
    for (int k = 0; k < 16; k += 2) {
      widen<T>(word(first + k % 8 / 2, i + k / 8 * 2), &rows[i][k]);
      widen<T>(word(column * 4 + k % 8 / 2, 4 + k / 8), &columns[i][k]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    double sum = c[i];
    for (int k = 0; k < 16; ++k) sum += rows[i / 2][k] * columns[i % 2][k];
    c[i] = static_cast<float>(sum);
  }
}

inline void multiply_add(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const auto word = exchange_operands(a, b0, b1);
  const auto number = [](uint32_t four, int k) { return static_cast<int8_t>(four >> 8 * k); };
  for (int k = 0; k < 32; k += 4) {
    const int t = k % 16 / 4, half = k / 16;
    for (int i = 0; i < 4; ++i) {
      const uint32_t left = word(emulated::lane() / 4 * 4 + t, i / 2 + 2 * half);
      const uint32_t right = word((emulated::lane() % 4 * 2 + i % 2) * 4 + t, 4 + half);
      for (int j = 0; j < 4; ++j) c[i] += number(left, j) * number(right, j);
    }
  }
}

template <class T>
uint32_t pack_pair(float first, float second) {
  const T pair[2] = {from_float<T>(first), from_float<T>(second)};
  uint32_t word;
  std::memcpy(&word, pair, 4);
  return word;
}
template <class T>
uint32_t subtract_pair(uint32_t a, uint32_t b) {
  double left[2], right[2];
  widen<T>(a, left);
  widen<T>(b, right);
  return pack_pair<T>(static_cast<float>(left[0] - right[0]),
                      static_cast<float>(left[1] - right[1]));
}
inline float exp2_fast(float x) { return std::exp2(x); }

}  // namespace pagedinfer::kernels
