#include <utility>

#include "core/check.h"
#include "model/decoder.h"

namespace pagedinfer {
namespace {

// Scratch memory that is only addresses.
class NoMemory final : public StepProtocol {
 public:
  explicit NoMemory(DType activation) : activation_(activation) {}

  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    constexpr uintptr_t kAlignment = 256;
    const Tensor result = {reinterpret_cast<void*>(next_), dtype, rows, cols, cols};
    const auto bytes = static_cast<uintptr_t>(rows * cols * size_of(dtype));
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return result;
  }
  DType activation_type() const override { return activation_; }

  BatchView stage(const Batch&) override { CHECK(false); }
  void copy_kv(const BatchView&, std::span<const KvLayer>) override { CHECK(false); }
  Ticket sample(Tensor, std::span<const SampleRow>) override { CHECK(false); }
  void collect(Ticket, std::span<DrawnToken>) override { CHECK(false); }

 private:
  const DType activation_;
  uintptr_t next_ = uintptr_t{1} << 20;
};

// Computes nothing and lists the products.
class ListedProducts final : public Arithmetic {
 public:
  std::vector<InputProducts> list = {};

  void matmul(Tensor x, std::span<const Product> products) override {
    list.push_back({x, {products.begin(), products.end()}});
  }
  void embed(Tensor, Tensor, float, Tensor) override {}
  void rms_norm(Tensor, Tensor, float, float, Tensor) override {}
  void add(Tensor, Tensor) override {}
  void add_bias(Tensor, Tensor) override {}
  void scale(Tensor, float) override {}
  void softcap(Tensor, float) override {}
  void rope_table(Tensor, Tensor, const RopeScale&, Tensor) override {}
  void rope(Tensor, Tensor, int) override {}
  void gate(Tensor, Tensor, Activation, Tensor) override {}
  void route(Tensor, const Router&, const ExpertChoice&) override {}
  void group_by_expert(const ExpertChoice&, const ExpertGroups&) override {}
  void multiply_experts(Tensor, const ExpertChoice&, const ExpertGroups&, std::span<const Expert>,
                        Activation, const ClampedSwish&, Tensor) override {}
  void write_kv(Tensor, Tensor, Tensor, KvLayer) override {}
  void rotate_and_write_kv(Tensor, Tensor, Tensor, const HeadNorms&, const RopeTables&, Tensor,
                           KvLayer) override {}
  void attention(Tensor, KvLayer, const BatchView&, const AttentionArgs&, Tensor) override {}
  void gather_rows(Tensor, Tensor, Tensor) override {}
};

}  // namespace

std::vector<InputProducts> products_of_step(const ModelSpec& spec, const Weights& weights,
                                            DType activation, const StepBounds& bounds) {
  NoMemory steps(activation);
  ListedProducts products;
  std::vector<KvLayer> cache(spec.layers.size());
  BatchView batch = {};
  batch.tokens = {nullptr, DType::kI32, bounds.tokens, 1, 1};
  batch.logit_tokens = {nullptr, DType::kI32, bounds.sequences, 1, 1};
  forward(spec, weights, cache, batch, steps, products);
  return std::move(products.list);
}

}  // namespace pagedinfer
