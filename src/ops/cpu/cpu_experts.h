#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/host_memory.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/thread_pool.h"
#include "ops/device_memory.h"
#include "ops/experts.h"

namespace pagedinfer {

// The experts' operations of Arithmetic on the CPU, with the buffers that they reuse.
//
// The rows of an expert are gathered and packed as the input of a product of their own. A task of
// the first products computes a block of one expert's gate and up, applies the gate, and packs the
// result; blocks of more rows come first. A task of the last product owns some columns of the
// output: it goes through all experts in ascending order and adds each expert's output to its rows.
// So no sum is divided, no output of an expert goes to memory, and experts without a row are not
// read.
class CpuExperts {
 public:
  CpuExperts(const CpuOptions& options, const Kernels& kernels, ThreadPool& pool);

  // Of the buffers, for steps within the bounds.
  static int64_t step_bytes(const StepBounds& bounds);
  int64_t thread_bytes(const StepBounds& bounds) const;
  // Makes the buffers of a step, so that they can be made present.
  void reserve(const StepBounds& bounds);
  int64_t held_bytes() const { return packed_x_.size() + packed_gated_.size(); }

  void route(Tensor x, const Router& router, const ExpertChoice& choice);
  void multiply(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                std::span<const Expert> experts, Activation activation, const ClampedSwish& swish,
                Tensor out);

 private:
  // The rows of one expert.
  struct Group {
    const Expert* expert;
    std::span<const int32_t> numbers;  // ExpertGroups::numbers
    char *x, *gated;                   // packed: the input of gate and up, and of down
    int rows() const { return static_cast<int>(numbers.size()); }
  };
  struct Block {
    const Group* group;
    int first_row, first_column;
  };
  // Outputs of gate and up, or of down, that a thread computes together.
  struct Worker {
    static constexpr int kSize = 256 * 272;
    alignas(64) float gate[kSize], up[kSize];
    std::vector<float> gathered;  // rows of x
  };
  struct Call;  // the arguments of multiply()

  static void make_room(HostMemory& memory, int64_t bytes, const char* what);
  void make_workers();
  void* scratch_of(int worker);
  void make_groups(const Call& call, const ExpertGroups& groups);
  // The product that packs packed_rows_, from which experts of the same kind gather theirs: a row
  // is rounded once for all of them.
  const ProductKernels& product_of_rows() const;
  // Packs the rows of x for each expert that has them.
  void pack_groups(const Call& call);
  void pack_rows(const Call& call, const Group& group, int first_row, Worker& worker) const;
  // `next`: the block that this thread will compute after it, if known.
  void compute_gate(const Call& call, const Block& block, const Block* next, int worker);
  // `next`: the first of the columns after these, -1 if there are none.
  void add_outputs(const Call& call, int first, int last, int next, int worker);

  const CpuOptions options_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  HostMemory packed_x_, packed_gated_;  // of all groups
  HostMemory scratch_;                  // of products, per thread
  std::unique_ptr<Worker[]> workers_;   // one for each thread, made by the first call
  std::vector<Group> groups_;           // of experts with rows, ascending
  char* packed_rows_ = nullptr;         // all rows of x, in packed_x_ behind those of groups
  std::vector<Block> blocks_;           // largest first
  std::vector<float> logits_;           // (rows, experts)
};

}  // namespace pagedinfer
