#pragma once

#include <functional>

#include "core/profile.h"
#include "core/tensor.h"
#include "ops/cpu/cpu_ops.h"

namespace pagedinfer {

// What this processor does at most with these options, on all threads at once: bare multiplications
// of the kind that its products consist of, and reading memory. So no product is faster. Takes some
// tenths of a second and 256 MiB. `clock` returns seconds.
DevicePeaks measure_cpu_peaks(const CpuOptions& options, Quantization quantize,
                              const std::function<double()>& clock);

}  // namespace pagedinfer
