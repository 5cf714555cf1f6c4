#pragma once

#include <cstdint>
#include <functional>

#include "core/profile.h"
#include "core/tensor.h"
#include "ops/ops.h"

namespace pagedinfer {

// The sizes with which a device's peaks are measured: copies larger than its caches, and products
// large enough for full speed.
struct PeakProbe {
  int64_t copied_bytes = 0;
  int64_t rows = 0, width = 0;  // of a product (rows, width) x (width, width)
};

// Measures the highest rates of several copies (bytes read and written) and of several products in
// `compute`, and with kInt8 of products in int8 too. Takes some tenths of a second. REQUIRES: `ops`
// is new, and is not used afterwards.
DevicePeaks measure_peaks(Ops& ops, DType compute, const PeakProbe& probe,
                          const std::function<double()>& clock,
                          Quantization quantize = Quantization::kNone);

}  // namespace pagedinfer
