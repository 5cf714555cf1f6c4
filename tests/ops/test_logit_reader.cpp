#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "ops/logit_reader.h"
#include "tests/support/idle_ops.h"

namespace pagedinfer {
namespace {

// Changes the logits when it draws, and draws tokens that tell which sample() it was.
class ChangingSteps final : public IdleSteps {
 public:
  Tensor scratch(DType, int64_t, int64_t) override { return {}; }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override {
    for (int64_t i = 0; i < logits.rows; ++i) *logits.row<float>(i) = -1;
    num_rows_ = rows.size();
    return IdleSteps::sample(logits, rows);
  }
  void collect(Ticket ticket, std::span<DrawnToken> out) override {
    for (DrawnToken& drawn : out) drawn = {.token = static_cast<TokenId>(ticket)};
  }

 private:
  size_t num_rows_ = 0;
};

}  // namespace

TEST_CASE("rows of logits are read before they change, once each, and told with their tokens") {
  ChangingSteps device;
  int num_read = 0;
  LogitReader reader(device, [&](std::span<const float> row) {
    ++num_read;
    CHECK(row.size() == 2);
    return static_cast<uint64_t>(row[0] * 10 + row[1]);
  });
  const auto sample = [&](std::vector<float> values, std::vector<int> rows_of_draws) {
    const Tensor logits = {.data = values.data(),
                           .dtype = DType::kF32,
                           .rows = std::ssize(values) / 2,
                           .cols = 2,
                           .stride = 2};
    std::vector<SampleRow> rows;
    for (const int row : rows_of_draws) rows.push_back({.logits_row = row});
    return reader.sample(logits, rows);
  };
  const auto hashes = [&](StepProtocol::Ticket ticket, size_t count) {
    std::vector<DrawnToken> drawn(count);
    reader.collect(ticket, drawn);
    std::vector<uint64_t> found;
    for (const DrawnToken& token : drawn) {
      CHECK(token.token == ticket);
      found.push_back(token.logits_hash);
    }
    return found;
  };
  const auto first = sample({1, 2, 3, 4, 5, 6}, {0, 2, 2});
  CHECK(num_read == 2);
  const auto second = sample({7, 8}, {0});
  CHECK(hashes(first, 3) == std::vector<uint64_t>{12, 56, 56});
  CHECK(hashes(second, 1) == std::vector<uint64_t>{78});
  CHECK(hashes(second, 1) == std::vector<uint64_t>{78});  // asked again
}

}  // namespace pagedinfer
