// How bfloat16 weights that were packed at load lie in memory.
//
// Weights (outputs, k) are cut into panels of 32 outputs, so that a thread reads one contiguous run
// of memory. A panel has its columns in pairs: the first two columns of output 0, of output 1, and
// so on to output 31, then the next two. Columns are padded to a multiple of 32 with +0, outputs to
// whole panels with anything.
//
// All has internal linkage because this file is compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace pagedinfer {
namespace {

constexpr int kBf16Panel = 32;  // outputs
constexpr int kBf16Step = 32;   // columns are padded to a multiple of it

constexpr int64_t bf16_columns(int64_t k) { return (k + kBf16Step - 1) / kBf16Step * kBf16Step; }
constexpr int64_t bf16_panels(int64_t outputs) { return (outputs + kBf16Panel - 1) / kBf16Panel; }
// Numbers of a panel.
constexpr int64_t bf16_panel_size(int64_t k) { return bf16_columns(k) * kBf16Panel; }

}  // namespace
}  // namespace pagedinfer
