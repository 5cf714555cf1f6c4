// Steps on placeholder tokens: the device computes with the tokens that they stand for.
#include <algorithm>
#include <functional>

#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

constexpr int kVocab = 29;

struct Device {
  StepProtocol& ops;
  std::function<Tensor(std::vector<float>& logits)> put;
  std::function<std::vector<TokenId>(Tensor)> get;
};

// Rows of logits, from each of which some samples are drawn, where any can be.
struct Rows {
  Rows(Random& random, int count) : logits(random.normals(size_t(count) * kVocab, 2)) {
    params.resize(static_cast<size_t>(count));
    generated.resize(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      if (random.below(6) == 0) std::fill_n(&logits[i * kVocab], kVocab, -INFINITY);
      if (random.below(2)) params[i].temperature = 0.5f + random.unit();
      if (random.below(2)) params[i].frequency_penalty = 3;
      if (random.below(2)) params[i].repetition_penalty = 1.7f;
      for (int n = random.below(9); n > 0; --n) generated[i].push_back(random.below(kVocab));
      keys.push_back(random.bits());
      num_samples.push_back(random.between(1, 3));
      num_log_probs.push_back(random.between(-1, 4));
    }
  }

  std::vector<SampleRow> view() const {
    std::vector<SampleRow> rows;
    for (size_t i = 0; i < params.size(); ++i) {
      for (int sample = 0; sample < num_samples[i]; ++sample) {
        rows.push_back({.params = &params[i],
                        .generated = generated[i],
                        .key = keys[i],
                        .sample = static_cast<uint32_t>(sample),
                        .logits_row = static_cast<int>(i),
                        .num_log_probs = num_log_probs[i]});
      }
    }
    return rows;
  }

  std::vector<float> logits;
  std::vector<SamplingParams> params;
  std::vector<std::vector<TokenId>> generated;
  std::vector<uint64_t> keys;
  std::vector<int> num_samples, num_log_probs;
};

Batch batch_of(const std::vector<TokenId>& tokens) {
  Batch batch = {.tokens = tokens, .query_starts = {0}, .max_blocks = 1, .block_size = 1};
  for (int i = 1; i <= batch.num_tokens(); ++i) {
    batch.positions.push_back(0);
    batch.slot_mapping.push_back(i);
    batch.query_starts.push_back(i);
    batch.context_lens.push_back(1);
    batch.block_table.push_back(i);
  }
  return batch;
}

// Runs the same steps on two devices. One gets every token and is asked at once what it drew; the
// other gets placeholder tokens and is asked when its next step is in flight.
void check_unseen_tokens(const Device& told, const Device& blind, Random& random) {
  StepProtocol::Ticket before = 0;
  std::vector<DrawnToken> drawn;  // by the step before
  int num_unseen = 0, num_impossible = 0;
  for (int step = 0; step < 200; ++step) {
    INFO("step " << step);
    const auto token = [&] {
      if (drawn.empty() || random.below(3) > 0) return random.below(kVocab);
      ++num_unseen;
      return -1 - random.below(static_cast<int>(drawn.size()));
    };
    const auto seen = [&](TokenId t) { return t < 0 ? std::max(drawn[-1 - t].token, 0) : t; };
    std::vector<TokenId> tokens, seen_tokens;
    for (int n = random.between(1, 40); n > 0; --n) {
      tokens.push_back(token());
      seen_tokens.push_back(seen(tokens.back()));
    }
    Rows rows(random, random.between(1, 7));
    for (auto& generated : rows.generated) generated.push_back(token());
    Rows seen_rows = rows;
    for (auto& generated : seen_rows.generated) generated.back() = seen(generated.back());

    told.ops.stage(batch_of(seen_tokens));
    const std::vector<SampleRow> seen_view = seen_rows.view(), view = rows.view();
    const std::vector<DrawnToken> expected =
        collect(told.ops, told.ops.sample(told.put(seen_rows.logits), seen_view), view.size());

    REQUIRE(blind.get(blind.ops.stage(batch_of(tokens)).tokens) == seen_tokens);
    const StepProtocol::Ticket ticket = blind.ops.sample(blind.put(rows.logits), view);
    for (int times = before == 0 ? 0 : random.between(1, 2); times > 0; --times) {
      REQUIRE(collect(blind.ops, before, drawn.size()) == drawn);
    }
    before = ticket;
    drawn = expected;
    num_impossible += static_cast<int>(std::ranges::count(drawn, kNoToken, &DrawnToken::token));
  }
  CHECK(num_unseen > 500);
  CHECK(num_impossible > 50);
}

Device on_cpu(StepProtocol& ops) {
  return {.ops = ops,
          .put =
              [](std::vector<float>& logits) {
                return view(logits, static_cast<int64_t>(logits.size()) / kVocab, kVocab);
              },
          .get =
              [](Tensor column) {
                const auto* const first = column.row<int32_t>(0);
                return std::vector<TokenId>(first, first + column.rows);
              }};
}

Device on_gpu(CudaOps& ops) {
  return {.ops = ops.steps(),
          .put =
              [&](std::vector<float>& logits) {
                const auto rows = static_cast<int64_t>(logits.size()) / kVocab;
                const Tensor copy = ops.steps().scratch(DType::kF32, rows, kVocab);
                ops.write(logits.data(), copy);
                return copy;
              },
          .get =
              [&](Tensor column) {
                std::vector<TokenId> tokens(static_cast<size_t>(column.rows));
                ops.read(column, tokens.data());
                return tokens;
              }};
}

}  // namespace

TEST_CASE("a placeholder token is computed as the token it stands for") {
  const auto told = make_cpu_ops({.isa = available_isas().back()});
  const auto blind = make_cpu_ops({.isa = available_isas().back()});
  Random random{91};
  check_unseen_tokens(on_cpu(told->steps()), on_cpu(blind->steps()), random);
}

TEST_CASE("on a GPU: a placeholder token is computed as the token it stands for") {
  if (skips_without_gpu()) return;
  ModelSpec spec;
  spec.vocab = kVocab;
  const auto told = make_gpu(spec, {}), blind = make_gpu(spec, {});
  Random random{92};
  check_unseen_tokens(on_gpu(*told), on_gpu(*blind), random);
}

}  // namespace pagedinfer
