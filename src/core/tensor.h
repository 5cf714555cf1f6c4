#pragma once

#include <cstdint>

namespace pagedinfer {

// kI4: codes of 4 to 8 bits and their scales, in panels of so many rows only.
constexpr int64_t kCodePanelRows = 64;
enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kI8, kI4 };

// REQUIRES: it is not kI4.
constexpr int64_t size_of(DType dtype) {
  if (dtype == DType::kI8) return 1;
  return dtype == DType::kF32 || dtype == DType::kI32 ? 4 : 2;
}

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "float32";
    case DType::kBF16: return "bfloat16";
    case DType::kF16: return "float16";
    case DType::kI32: return "int32";
    case DType::kI8: return "int8";
    case DType::kI4: return "int4";
  }
  return "";
}

// kPanels: a layout that the device chooses, for matmul() and embed() only.
enum class Layout : uint8_t { kRows, kPanels };

// A non-owning matrix view. Rows are `stride` elements apart, so a block of columns of a wider
// matrix is a view too. The view does not know where the memory lives; the Ops that made it do.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0, stride = 0;  // kPanels: the stride from panel to panel
  Layout layout = Layout::kRows;

  bool empty() const { return data == nullptr; }
  // Bytes of the numbers, without padding; of codes with their scales.
  int64_t bytes() const {
    return dtype == DType::kI4 ? rows * stride / kCodePanelRows : rows * cols * size_of(dtype);
  }

  // REQUIRES: T is the type that dtype names, and the memory is the host's.
  template <class T>
  T* row(int64_t i) const {
    return static_cast<T*>(data) + i * stride;
  }
};

// The type of a model's matrices after loading.
enum class Quantization : uint8_t {
  kNone,   // that of computation
  kCodes,  // the checkpoint's codes of 4 bits, where it has some; else that of computation
  kInt8,
  kInt4,  // codes of 4 bits, and int8 for the output
};
// Whether products have inputs in int8.
constexpr bool multiplies_int8(Quantization quantize) { return quantize != Quantization::kNone; }

}  // namespace pagedinfer
