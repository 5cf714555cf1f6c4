#pragma once

#include <cstdint>

#include "ops/cuda/cuda_owner.h"
#include "ops/cuda/device_arena.h"

namespace pagedinfer {

// One piece of the device's memory, and what has been taken of it.
struct CudaPiece {
  CudaPiece() = default;
  // Throws Error, naming `what` the memory is for, if the device has none.
  CudaPiece(int64_t bytes, const char* what);

  // Throw Error if there is no room, because more is taken than was planned.
  char* take(int64_t bytes, int64_t alignment, const char* what);
  char* take_step(int64_t bytes, const char* what);
  // Null if there is no room.
  char* try_step(int64_t bytes);

  DeviceBytes memory = {};
  DeviceArena arena = {};
};

}  // namespace pagedinfer
