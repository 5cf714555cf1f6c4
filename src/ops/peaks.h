#pragma once

#include <cstdint>
#include <functional>
#include <vector>

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

// From -1 to 1, in int8 all there are. A device multiplies equal numbers faster.
std::vector<char> random_numbers(DType dtype, int64_t count);

// The least seconds that `work` takes, of several calls.
double fastest(DeviceTimer& timer, const std::function<void()>& work);

// The peaks of a device that are known by its operations only: the highest rates of several copies
// (bytes read and written) and of several products in `compute`, and with kInt8 of products in int8
// too. Takes some tenths of a second. REQUIRES: `ops` is new, and is not used afterwards.
DevicePeaks measure_peaks(Ops& ops, DType compute, const PeakProbe& probe,
                          const std::function<double()>& clock,
                          Quantization quantize = Quantization::kNone);

}  // namespace pagedinfer
