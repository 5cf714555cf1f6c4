#include "ops/cuda/cuda_piece.h"

#include <fmt/format.h>

#include "core/error.h"

namespace pagedinfer {

CudaPiece::CudaPiece(int64_t bytes, const char* what)
    : memory(take_device(bytes, fmt::format("{} bytes for {}", bytes, what).c_str())),
      arena(bytes) {}

char* CudaPiece::take(int64_t bytes, int64_t alignment, const char* what) {
  if (const auto offset = arena.take_permanent(bytes, alignment)) return memory.get() + *offset;
  throw Error(fmt::format("out of GPU memory: {} takes {} bytes, {} of {} were planned and taken",
                          what, bytes, arena.permanent(), arena.size()));
}

char* CudaPiece::take_step(int64_t bytes, const char* what) {
  if (const auto offset = arena.take_step(bytes)) return memory.get() + *offset;
  throw Error(fmt::format("out of GPU memory: {} of a step takes {} bytes more than was planned",
                          what, bytes));
}

char* CudaPiece::try_step(int64_t bytes) {
  const auto offset = arena.take_step(bytes);
  return offset ? memory.get() + *offset : nullptr;
}

}  // namespace pagedinfer
