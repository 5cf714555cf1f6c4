// Ops::sample on the CPU.
#include <cmath>

#include "ops/cpu/cpu_backend.h"

namespace pagedinfer {

void CpuOps::sample(Tensor logits, std::span<const SampleRow> rows, std::span<TokenId> out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* const row = logits.row<float>(static_cast<int64_t>(i));
    TokenId best = -1;
    for (int64_t id = 0; id < logits.cols; ++id) {
      if (std::isfinite(row[id]) && (best < 0 || row[id] > row[best])) {
        best = static_cast<TokenId>(id);
      }
    }
    out[i] = best;
  }
}

}  // namespace pagedinfer
