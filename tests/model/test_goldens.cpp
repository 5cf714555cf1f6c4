// The bundled models against results of transformers (tools/goldens/make_goldens.py).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/golden_rows.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

using simdjson::dom::element;

constexpr const char* kModels[] = {"story-llama", "story-qwen3", "story-gemma3"};

std::string directory_of(const std::string& model) { return source_dir() + "/datasets/" + model; }

// Calls `visit` with every record of a golden file; returns how many there are.
template <class Visit>
int for_each_record(const std::string& model, const std::string& name, const Visit& visit) {
  const std::string path = source_dir() + "/tests/data/" + model + "/" + name;
  simdjson::dom::parser parser;
  int count = 0;
  for (const element record : parser.load_many(path, 1 << 22)) {
    visit(record);
    ++count;
  }
  return count;
}

std::string name_of(element record) {
  const std::string_view id = record["id"];
  return std::string(id);
}

}  // namespace

TEST_CASE("the bundled tokenizers give the reference's ids") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    const auto tokenizer = make_tokenizer(directory_of(model));
    REQUIRE(tokenizer != nullptr);
    const int count = for_each_record(model, "tokens.jsonl", [&](element record) {
      const std::string_view text = record["text"];
      CAPTURE(text);
      CHECK(tokenizer->encode(text) == ints(record["token_ids"]));
    });
    CHECK(count >= 60);
  }
}

TEST_CASE("float32 logits of the bundled models are the reference's") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    ModelRunner runner(directory_of(model), DType::kF32);
    float worst = 0.0f;
    const int count = for_each_record(model, "logits.jsonl", [&](element record) {
      worst = std::max(worst, float32_error(runner, record));
    });
    CHECK(worst <= 1e-4f);
    CHECK(count >= 10);
    MESSAGE(
        fmt::format("{}: float32: largest difference {:.1e} of the largest logit", model, worst));
  }
}

TEST_CASE("log probabilities of the bundled models are the reference's") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    ModelRunner runner(directory_of(model), DType::kF32);
    float worst = 0.0f;
    const int count = for_each_record(model, "log_probs.jsonl", [&](element record) {
      const auto tokens = ints(record["token_ids"]);
      const auto num_scored = static_cast<int>(tokens.size()) - 1;
      std::vector<int32_t> positions(static_cast<size_t>(num_scored));
      std::iota(positions.begin(), positions.end(), 0);
      runner.start(static_cast<int>(tokens.size()));
      std::vector<float> logits;
      for (const auto& row : runner.run(tokens, positions)) {
        logits.insert(logits.end(), row.begin(), row.end());
      }
      const SamplingParams greedy;
      std::vector<SampleRow> rows;
      for (const int32_t i : positions) {
        rows.push_back({.params = &greedy,
                        .allowed = {&tokens[static_cast<size_t>(i) + 1], 1},
                        .logits_row = i,
                        .num_log_probs = 5});
      }
      std::vector<DrawnToken> drawn(rows.size());
      Ops& ops = *runner.ops;
      const int64_t vocab = runner.model.spec.vocab;
      ops.steps().collect(
          ops.steps().sample({logits.data(), DType::kF32, num_scored, vocab, vocab}, rows), drawn);

      // Of two numbers that differ by the error of a logit.
      const float error = 2e-4f * largest(logits);
      const auto check = [&](float ours, double theirs) {
        const float difference = std::abs(ours - static_cast<float>(theirs));
        CHECK(difference <= error);
        worst = std::max(worst, difference);
      };
      for (size_t i = 0; i < drawn.size(); ++i) {
        CHECK(drawn[i].token == tokens[i + 1]);
        check(drawn[i].log_probability.value(), record["log_probs"].at(i));
        const simdjson::dom::array top = record["top"].at(i);
        REQUIRE(drawn[i].candidates.size() == top.size());
        for (size_t k = 0; k < top.size(); ++k) {
          const auto& [id, log_probability] = drawn[i].candidates[k];
          check(log_probability, top.at(k).at(1));
          const auto logit_of = [&](int64_t token) { return logits[i * vocab + token]; };
          // Another id only where the two are as likely.
          CHECK(std::abs(logit_of(id) - logit_of(top.at(k).at(0))) <= error);
        }
      }
    });
    CHECK(count == 2);
    MESSAGE(fmt::format("{}: log probabilities: largest difference {:.1e}", model, worst));
  }
}

TEST_CASE("bfloat16 logits are about as close to float32 as the reference's bfloat16 ones") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    ModelRunner runner(directory_of(model), DType::kBF16);
    float ours = 0.0f, theirs = 0.0f, worst_row = 0.0f;
    const int count = for_each_record(model, "logits.jsonl", [&](element record) {
      const auto tokens = ints(record["token_ids"]);
      runner.start(static_cast<int>(tokens.size()));
      const auto rows = runner.run(tokens, ints(record["positions"]));
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto exact = floats(record["float32"].at(i));
        const float our_error = largest_difference(rows[i], exact);
        const float their_error = largest_difference(floats(record["bfloat16"].at(i)), exact);
        CHECK(our_error <= 1.5f * their_error);
        worst_row = std::max(worst_row, our_error / their_error);
        ours = std::max(ours, our_error);
        theirs = std::max(theirs, their_error);
      }
    });
    CHECK(count >= 10);
    MESSAGE(fmt::format(
        "{}: bfloat16: largest error {:.3f}, the reference's {:.3f}; worst row {:.2f} times", model,
        ours, theirs, worst_row));
  }
}

TEST_CASE("greedy completions of the bundled models are the reference's") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    ModelRunner runner(directory_of(model), DType::kF32);
    std::map<std::string, std::vector<TokenId>> prompts;
    for_each_record(model, "tokens.jsonl",
                    [&](element record) { prompts[name_of(record)] = ints(record["token_ids"]); });
    const int count = for_each_record(model, "completions.jsonl", [&](element record) {
      const std::string id = name_of(record);
      const auto expected = ints(record["token_ids"]);
      CAPTURE(id);
      const std::vector<TokenId>& prompt = prompts.at(id);
      runner.start(static_cast<int>(prompt.size() + expected.size()));
      std::vector<TokenId> tokens = {
          best_of(runner.run(prompt, {static_cast<int32_t>(prompt.size()) - 1})[0])};
      while (tokens.size() < expected.size()) {
        tokens.push_back(best_of(runner.run({tokens.back()}, {0})[0]));
      }
      CHECK(tokens == expected);
    });
    CHECK(count >= 50);
  }
}
