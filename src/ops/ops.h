#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ops/arithmetic.h"
#include "ops/device_memory.h"
#include "ops/step_protocol.h"
#include "ops/timing.h"

namespace pagedinfer {

// The algorithms of products, by number of rows.
struct ProductChoices {
  int64_t buckets = 0;      // ranges of numbers of rows, over all shapes of products
  int64_t fallen_back = 0;  // buckets that use the slower algorithm for all numbers of rows
};

// A device with its parts, which share its state. Code that needs one part takes only that one.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual DeviceMemory& memory() = 0;
  virtual StepProtocol& steps() = 0;
  virtual Arithmetic& arithmetic() = 0;
  virtual Timing& timing() = 0;

  // "cpu (avx512, 2 threads)": for the statistics.
  virtual std::string description() const = 0;
  // Names all that the bits of deterministic runs depend on beside their settings, such as
  // "NVIDIA H200, cuBLAS 130100, products 5ad02eb15a3ff4d8". Complete after prepare(). "": the bits
  // are the same on every device of this kind.
  virtual std::string arithmetic_name() const { return ""; }
  // What prepare() chose for deterministic runs; nullopt: it had no choice.
  virtual std::optional<ProductChoices> product_choices() const { return std::nullopt; }
};

}  // namespace pagedinfer
