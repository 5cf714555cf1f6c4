// Tiny models of every family against logits of transformers
// (tools/goldens/make_family_goldens.py). Both sides make the dummy weights by the same rule.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/golden_rows.h"
#include "tests/support/model_runner.h"
#include "tests/support/replayed_choices.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

using simdjson::dom::element;

// Calls visit(name, record, directory with its config.json) for every model.
template <class Visit>
void for_each_model(const Visit& visit) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/data/families")) {
    const std::string name = entry.path().stem();
    INFO(name);
    simdjson::dom::parser parser;
    const element record = parser.load(entry.path());
    const TempDir dir;
    write_file(dir / "config.json", simdjson::minify(record["config"]));
    visit(name, record, dir.path());
    ++count;
  }
  CHECK(count >= 50);
}

// Of the run that the record tells of.
ModelRunner runner_of(element record, const std::string& dir, DType compute) {
  ModelRunner runner(dir, compute, available_isas().back(), 1, WeightSource::kDummy);
  int64_t max_model_len = 0;
  if (record["max_model_len"].get(max_model_len) == simdjson::SUCCESS) {
    use_ropes(runner.model.spec, static_cast<int>(max_model_len), runner.weights);
  }
  return runner;
}

}  // namespace

TEST_CASE("float32 logits of every family are the reference's") {
  for_each_model([](const std::string& name, element record, const std::string& dir) {
    ModelRunner runner = runner_of(record, dir, DType::kF32);
    float worst = 0.0f;
    for (const element sequence : record["sequences"]) {
      worst = std::max(worst, float32_error(runner, sequence));
    }
    CHECK(worst <= 1e-4f);
    MESSAGE(fmt::format("{}: largest difference {:.1e} of the largest logit", name, worst));
  });
}

TEST_CASE("bfloat16 logits of every family are about as close to float32 as the reference's") {
  for_each_model([](const std::string& name, element record, const std::string& dir) {
    const RecordedChoices choices =
        choices_of(runner_of(record, dir, DType::kF32), record["sequences"]);
    ModelRunner runner = runner_of(record, dir, DType::kBF16);
    ChoiceReplay replay(*runner.arithmetic, choices);
    runner.arithmetic = &replay;
    double ours = 0, theirs = 0;  // sums of squares: the largest of a few rows would be chance
    for (const element sequence : record["sequences"]) {
      const auto rows = rows_of(runner, sequence);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto exact = floats(sequence["float32"].at(i));
        ours += squared_distance(rows[i], exact);
        theirs += squared_distance(floats(sequence["bfloat16"].at(i)), exact);
      }
    }
    const double ratio = std::sqrt(ours / theirs);
    CHECK(ratio <= 1.5);
    MESSAGE(fmt::format("{}: {:.2f} times the reference's error", name, ratio));
  });
}

TEST_CASE("a family's logits have the same bits in chunks of any sizes") {
  for_each_model([](const std::string&, element record, const std::string& dir) {
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      ModelRunner runner = runner_of(record, dir, compute);
      for (const element sequence : record["sequences"]) {
        const auto whole = rows_of(runner, sequence);
        for (const std::vector<int>& parts : {std::vector<int>{1}, {3}, {7, 1, 1}, {24, 5}}) {
          CAPTURE(parts[0]);
          CHECK(rows_of(runner, sequence, parts) == whole);
        }
      }
    }
  });
}

TEST_CASE("greedy completions of every family are the reference's") {
  for_each_model([](const std::string&, element record, const std::string& dir) {
    ModelRunner runner = runner_of(record, dir, DType::kF32);
    const element greedy = record["greedy"];
    const auto prompt = ints(greedy["prompt"]), expected = ints(greedy["token_ids"]);
    runner.start(static_cast<int>(prompt.size() + expected.size()));
    std::vector<TokenId> tokens = {
        best_of(runner.run(prompt, {static_cast<int32_t>(prompt.size()) - 1})[0])};
    while (tokens.size() < expected.size()) {
      tokens.push_back(best_of(runner.run({tokens.back()}, {0})[0]));
    }
    CHECK(tokens == expected);
  });
}
