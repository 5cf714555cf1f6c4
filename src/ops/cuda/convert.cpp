#include "ops/cuda/convert.h"

#include <cstring>

#include "core/check.h"
#include "core/float16.h"

namespace pagedinfer {
namespace {

template <class To, class From, class F>
void each(const void* from, void* to, int64_t count, const F& f) {
  const From* const x = static_cast<const From*>(from);
  To* const y = static_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

}  // namespace

void convert(const void* from, DType from_type, void* to, DType to_type, int64_t count) {
  CHECK(from_type != DType::kI32 && to_type != DType::kI32);
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>(count * size_of(from_type)));
  } else if (from_type == DType::kF32 && to_type == DType::kBF16) {
    each<uint16_t, float>(from, to, count, to_bf16);
  } else if (from_type == DType::kF32) {
    each<uint16_t, float>(from, to, count, to_f16);
  } else if (from_type == DType::kBF16 && to_type == DType::kF32) {
    each<float, uint16_t>(from, to, count, from_bf16);
  } else if (from_type == DType::kBF16) {
    each<uint16_t, uint16_t>(from, to, count, [](uint16_t x) { return to_f16(from_bf16(x)); });
  } else if (to_type == DType::kF32) {
    each<float, uint16_t>(from, to, count, from_f16);
  } else {
    each<uint16_t, uint16_t>(from, to, count, [](uint16_t x) { return to_bf16(from_f16(x)); });
  }
}

}  // namespace pagedinfer
