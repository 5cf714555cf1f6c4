#include "ops/cuda/step_memory.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/int8_panels.h"
#include "kernels/sample.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/drawn_arrays.h"
#include "ops/cuda/product_key.h"
#include "ops/cuda/sample_arrays.h"
#include "ops/cuda/step_arrays.h"

namespace pagedinfer {
namespace {

constexpr int64_t kSampleListBytes = int64_t{4} << 20;  // in addition to the largest row
constexpr int64_t kSlack = int64_t{2} << 20;

// Rows of experts in a step, each of one choice of a token, and numbers of each between products.
struct ExpertRows {
  int64_t rows = 0, widest = 0;
};
ExpertRows expert_rows(const StepBounds& bounds) {
  const ExpertBounds& experts = bounds.experts;
  if (experts.experts == 0) return {};
  const int64_t choices = experts.per_row + (experts.shared_width > 0 ? 1 : 0);
  return {bounds.tokens * choices, std::max(experts.width, experts.shared_width)};
}

int64_t int8_input_bytes(const StepBounds& bounds) {
  if (!bounds.int8_products) return 0;
  const auto [rows, widest] = expert_rows(bounds);
  return std::max(kernels::int8_input_bytes(bounds.tokens, bounds.widest_input),
                  kernels::int8_input_bytes(rows, widest));
}

}  // namespace

StepMemory::StepMemory(const AttentionShape& attention, const StepBounds& bounds, DType compute)
    : products(kProductWorkspaceBytes),
      sample_lists(kSampleListBytes +
                   max_sample_bytes(bounds.vocab, bounds.context, bounds.sequences)),
      masks(bounds.sequences * kernels::mask_words(bounds.vocab) * int64_t{sizeof(uint32_t)}),
      drawn(2 * align_up(DrawnLayout(bounds.sequences).bytes, DeviceArena::kStepAlignment)),
      int8_input(int8_input_bytes(bounds)),
      expert_gates(expert_rows(bounds).rows * expert_rows(bounds).widest * size_of(compute)),
      expert_outputs(expert_rows(bounds).rows * bounds.experts.hidden * size_of(DType::kF32)),
      copies(3 * kCopiesAtOnce * int64_t{sizeof(int32_t)}),
      counters(kernels::attention_counters(bounds.sequences, attention.kv_heads) *
               int64_t{sizeof(uint32_t)}),
      arrays(max_packed(attention, bounds) * int64_t{sizeof(int32_t)}),
      attention_states(kernels::attention_workspace_bytes(max_attention_states(attention, bounds),
                                                          attention.kv_heads, attention.head_dim)),
      sampling(kernels::sample_workspace_bytes(bounds.sequences, bounds.vocab)) {}

int64_t StepMemory::total() const {
  return products + sample_lists + masks + drawn + int8_input + expert_gates + expert_outputs +
         copies + counters + arrays + attention_states + sampling + kSlack;
}

}  // namespace pagedinfer
