// The tensors that stand for a quantized matrix, checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/float16.h"
#include "io/safetensors.h"

namespace pagedinfer {

// Types of scales.
constexpr std::string_view kFloatTypes[] = {"F32", "F16", "BF16"};
inline bool is_float(const StoredTensor& tensor) {
  return std::ranges::find(kFloatTypes, tensor.type) != std::end(kFloatTypes);
}
// The type of words of packed numbers and of groups of columns.
constexpr std::string_view kInt32Types[] = {"I32"};

using Shape = std::vector<int64_t>;

// The tensor of this name. Throws Error, naming what was found and what was expected, if there is
// none, or it has none of these types or none of these shapes.
const StoredTensor& find_part(const Checkpoint& files, const std::string& name,
                              std::span<const std::string_view> types,
                              std::initializer_list<Shape> shapes);

// Throws Error unless every group is in [0, num_groups).
void check_groups(const StoredTensor& groups, const std::string& name, int64_t num_groups);

// Throws Error, naming the tensor, unless the number of `things` (rows or columns) of the matrix
// that it is a part of is a multiple of `unit`.
void check_multiple(const Checkpoint& files, const std::string& name, std::string_view things,
                    int64_t number, int64_t unit);

// Throws Error if there is MODULE.OTHER beside MODULE.CODES: either could be the matrix.
void refuse_beside(const Checkpoint& files, const std::string& module, std::string_view codes,
                   std::string_view other);

// The numbers of a tensor. REQUIRES: T is as large as a number of the tensor's type.
template <class T>
std::span<const T> numbers_of(const StoredTensor& tensor) {
  return {reinterpret_cast<const T*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(T)};
}

// The numbers of a tensor of one of kFloatTypes.
class StoredFloats {
 public:
  StoredFloats() = default;
  explicit StoredFloats(const StoredTensor& tensor)
      : type_(tensor.type == "F32"   ? DType::kF32
              : tensor.type == "F16" ? DType::kF16
                                     : DType::kBF16),
        data_(tensor.bytes.data()) {}

  DType type() const { return type_; }
  float operator[](int64_t i) const {
    if (type_ == DType::kF32) return static_cast<const float*>(data_)[i];
    const uint16_t bits = static_cast<const uint16_t*>(data_)[i];
    return type_ == DType::kF16 ? from_f16(bits) : from_bf16(bits);
  }

 private:
  DType type_ = DType::kF32;
  const void* data_ = nullptr;
};

}  // namespace pagedinfer
