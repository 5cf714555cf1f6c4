#include "ops/cuda/step_memory.h"

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

}  // namespace

StepMemory::StepMemory(const StepBounds& bounds)
    : products(kProductWorkspaceBytes),
      sample_lists(kSampleListBytes +
                   max_sample_bytes(bounds.vocab, bounds.context, bounds.sequences)),
      masks(bounds.sequences * kernels::mask_words(bounds.vocab) * int64_t{sizeof(uint32_t)}),
      drawn(2 * align_up(DrawnLayout(bounds.sequences).bytes, DeviceArena::kStepAlignment)),
      int8_input(
          bounds.int8_products ? kernels::int8_input_bytes(bounds.tokens, bounds.widest_input) : 0),
      copies(3 * kCopiesAtOnce * int64_t{sizeof(int32_t)}),
      counters(kernels::attention_counters(bounds.sequences, bounds.kv_heads) *
               int64_t{sizeof(uint32_t)}),
      arrays(max_packed(bounds) * int64_t{sizeof(int32_t)}),
      attention(kernels::attention_workspace_bytes(max_attention_states(bounds), bounds.kv_heads,
                                                   bounds.head_dim)),
      sampling(kernels::sample_workspace_bytes(bounds.sequences, bounds.vocab)) {}

int64_t StepMemory::total() const {
  return products + sample_lists + masks + drawn + int8_input + copies + counters + arrays +
         attention + sampling + kSlack;
}

}  // namespace pagedinfer
