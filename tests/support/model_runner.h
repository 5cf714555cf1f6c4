// Runs one sequence at a time through a model on the CPU.
#pragma once

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load/open_store.h"
#include "model/decoder.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/cpu/cpu_ops.h"

namespace pagedinfer {

class ModelRunner {
 public:
  // The type of the cache is that of computation unless it is given. `lora`: the folder of an
  // adapter, or "".
  ModelRunner(const std::string& dir, DType compute, CpuIsa isa = available_isas().back(),
              int num_threads = 1, WeightSource source = WeightSource::kFiles,
              std::optional<DType> cache_type = {}, Quantization quantize = Quantization::kNone,
              const std::string& lora = "")
      : model(opened(dir, source, lora)),
        ops(make_cpu_ops({.isa = isa, .num_threads = num_threads, .compute = compute})),
        weights(load_weights(model, compute, ops->memory(), quantize)),
        cache_type_(cache_type.value_or(compute)) {}

  // Begins a new sequence of at most `num_positions` tokens.
  void start(int num_positions) {
    cache_.clear();
    for (size_t i = 0; i < model.spec.layers.size(); ++i) {
      cache_.push_back(ops->memory().allocate_kv(cache_type_, model.spec.kv_heads,
                                                 model.spec.head_dim, num_positions));
    }
    num_positions_ = num_positions;
    length_ = 0;
  }

  // Appends `tokens` to the sequence and computes them in one step. Returns the logits after the
  // tokens whose indices are in `wanted`.
  std::vector<std::vector<float>> run(std::vector<TokenId> tokens, std::vector<int32_t> wanted) {
    const auto count = static_cast<int32_t>(tokens.size());
    Batch batch = {.tokens = std::move(tokens), .logit_tokens = std::move(wanted)};
    batch.positions.resize(static_cast<size_t>(count));
    std::iota(batch.positions.begin(), batch.positions.end(), length_);
    batch.slot_mapping = batch.positions;
    length_ += count;
    batch.query_starts = {0, count};
    batch.context_lens = {length_};
    batch.block_table = {0};
    batch.max_blocks = 1;
    batch.block_size = num_positions_;

    const BatchView view = ops->steps().stage(batch);
    const Tensor logits = forward(model.spec, weights, cache_, view, ops->steps(), *arithmetic);
    std::vector<std::vector<float>> rows;
    for (int64_t i = 0; i < logits.rows; ++i) {
      rows.emplace_back(logits.row<float>(i), logits.row<float>(i) + logits.cols);
    }
    return rows;
  }

  OpenedModel model;
  std::unique_ptr<Ops> ops;
  Arithmetic* arithmetic = &ops->arithmetic();  // a test may put another in front of it
  Weights weights;

 private:
  static OpenedModel opened(const std::string& dir, WeightSource source, const std::string& lora) {
    OpenedModel model = open_model(open_store(dir), source);
    if (!lora.empty()) open_adapter(lora, model);
    return model;
  }

  DType cache_type_;
  std::vector<KvLayer> cache_ = {};
  int num_positions_ = 0, length_ = 0;
};

}  // namespace pagedinfer
