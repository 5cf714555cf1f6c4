#include <doctest/doctest.h>

#include "jobs/output_costs.h"

namespace pagedinfer {
namespace {

// Counts the tokens that are turned into text.
class CountingTokenizer final : public Tokenizer {
 public:
  explicit CountingTokenizer(int& count) : count_(count) {}
  std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
  std::optional<TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::string_view token_bytes(TokenId) const override {
    ++count_;
    return "a";
  }
  int vocab_size() const override { return 10; }

 private:
  int& count_;
};

}  // namespace

TEST_CASE("what completions cost is what making some of them takes") {
  int count = 0;
  const CountingTokenizer tokenizer(count);
  const SamplingParams sampling = {.stop = {"b"}};
  const RecordOptions record;
  const OutputCosts costs =
      measure_output({.tokenizer = &tokenizer, .vocab = 10, .sampling = sampling, .record = record},
                     [&] { return 0.5 * count; });
  CHECK(costs.per_token == 0.5);
  CHECK(costs.per_completion == 0);
  CHECK(costs.seconds(3, 20) == 10);
  double now = 0;
  const OutputCosts of_ids =
      measure_output({.vocab = 10, .sampling = sampling, .record = record}, [&] { return ++now; });
  CHECK(of_ids.per_token == 0);
  CHECK(of_ids.per_completion == 1);
  CHECK(of_ids.seconds(3, 20) == 3);
}

}  // namespace pagedinfer
