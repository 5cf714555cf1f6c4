#pragma once

#include <cstdint>
#include <functional>

#include "core/profile.h"
#include "ops/ops.h"

namespace pagedinfer {

// How much is moved and computed to find a device's peaks: beyond its caches, and more than one
// product takes to reach full speed.
struct PeakProbe {
  int64_t copied_bytes = 0;
  int64_t rows = 0, width = 0;  // of a product (rows, width) x (width, width)
};

// The fastest of several copies, its reads and writes counted, and of several products in
// `compute`; takes some tenths of a second. REQUIRES: nobody has used `ops` before, and nobody
// does afterwards.
DevicePeaks measure_peaks(Ops& ops, DType compute, const PeakProbe& probe,
                          const std::function<double()>& clock);

}  // namespace pagedinfer
