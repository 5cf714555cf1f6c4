// Two configurations are compared: right ones agree, and a fault of one is told where it is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/verify/verify_job.h"
#include "ops/passed_on_steps.h"
#include "tests/support/e2e.h"
#include "tests/support/model_runs.h"
#include "tests/support/passed_on_arithmetic.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

constexpr int kMaxModelLen = 120, kBlock = 16;

// As run_verify() takes them: what stands in front of a model's device.
using Break = std::function<void(LoadedModel& model)>;

struct Verified {
  int exit_code = -1;
  std::vector<Json> differences = {}, rows = {};
  std::optional<Json> counts = {};
};

// A request whose completion has all its tokens.
struct PlainRequest {
  int num_prompt, max_tokens;
};

class Scene {
 public:
  explicit Scene(TinyModelOptions options = {}) : files_(options), vocab_(options.vocab) {
    config.config.model = files_.dir();
    config.config.device = Config::Device::kCpu;
    config.config.threads = 1;
    config.config.max_model_len = kMaxModelLen;
    config.config.num_blocks = 100;  // 1,600 positions, 13 reservations
    config.config.max_batch_size = 6;
    config.config.quiet = true;
    config.config.input = dir_ / "in.jsonl";
    config.logits = true;
    config.output = dir_ / "out.jsonl";
  }

  void write(const std::vector<PlainRequest>& requests) {
    std::string lines;
    WorkloadRandom random(8);
    requests_.clear();
    for (const PlainRequest& request : requests) {
      const std::vector<TokenId> prompt = random.tokens(request.num_prompt, vocab_);
      lines += fmt::format(R"({{"prompt_token_ids": [{}], "max_tokens": {}, "ignore_eos": true}})",
                           joined(prompt), request.max_tokens) +
               "\n";
      Request& same = requests_.emplace_back();
      same.prompt = prompt;
      same.sampling.max_tokens = request.max_tokens;
      same.sampling.ignore_eos = true;
    }
    write_file(config.config.input, lines);
  }

  // Requests of every kind, errors among them.
  void write_all_kinds() {
    std::string lines;
    WorkloadRandom random(9);
    for (int i = 0; i < 26; ++i) {
      const std::vector<TokenId> prompt = random.tokens(1 + i * 17 % 70, vocab_);
      std::string line = fmt::format(R"({{"id": {}, "prompt_token_ids": [{}], "max_tokens": {})", i,
                                     joined(prompt), 2 + i % 20);
      if (i % 8 == 2) {
        lines += line + ", \"beam_width\": 3}\n";
        continue;
      }
      if (i % 6 == 3) {
        line += R"(, "prompt_logprobs": 1)";
        num_scored_ += std::ssize(prompt) - 1;
      }
      if (i % 3 == 1) line += R"(, "temperature": 0.8, "n": 3)";
      if (i % 6 == 4) line += R"(, "best_of": 4)";
      if (i % 5 == 3) line += R"(, "logprobs": 2, "repetition_penalty": 1.2)";
      lines += line + "}\n";
      if (i % 9 == 5) lines += "{\"prompt_token_ids\": [100000]}\n\n{\"prompt\n";
    }
    write_file(config.config.input, lines);
  }

  // Tokens of prompts that lines of write_all_kinds() score.
  int64_t num_scored() const { return num_scored_; }

  // Compares with `change` made to the second configuration, which runs with a device that
  // `breaks` has changed; the first one finds it too, and must not be concerned.
  Verified verify(const std::function<void(Config& b)>& change, const Break& breaks = {}) {
    config.a.config = config.b.config = config.config;
    config.a.config.kv = Config::Kv::kContiguous;
    config.a.config.chunked_prefill = false;
    config.b.config.block_size = kBlock;
    change(config.b.config);
    config.config.overwrite = true;
    Verified verified;
    verified.exit_code =
        run_verify(config, [&](const std::vector<Config>& configs, const auto& clock) {
          LoadedModel model = load_model(configs, clock, Touch::kNo);
          if (breaks) breaks(model);
          return model;
        });
    std::vector<Json> lines = json_file(config.output);
    for (Json& line : lines) {
      const std::string kind = line.text("/kind");
      if (kind == "verify") {
        verified.counts = std::move(line);
      } else {
        (kind == "logits" ? verified.rows : verified.differences).push_back(std::move(line));
      }
    }
    REQUIRE(verified.counts);
    return verified;
  }

  // The tokens of each line in both configurations of the latest verify(), by the engine alone.
  std::pair<std::map<int64_t, std::vector<TokenId>>, std::map<int64_t, std::vector<TokenId>>>
  answers(const Break& breaks) const {
    LoadedModel model = load_model({config.a.config, config.b.config}, [] { return 0.0; });
    breaks(model);
    auto a = answer_all(model, model.plan.runs[0], requests_);
    return {std::move(a), answer_all(model, model.plan.runs[1], requests_)};
  }

  const Request& request(int64_t index) const { return requests_[static_cast<size_t>(index)]; }
  int64_t num_requests() const { return std::ssize(requests_); }

  VerifyConfig config;

 private:
  static std::string joined(const std::vector<TokenId>& tokens) {
    return fmt::format("{}", fmt::join(tokens, ", "));
  }

  TempDir dir_;
  TinyModel files_;
  TokenId vocab_;
  std::vector<Request> requests_;
  int64_t num_scored_ = 0;
};

bool is_paged(const Batch& batch) { return batch.block_size == kBlock; }

// Changes batches before the device gets them.
class AlteredBatches final : public PassedOnSteps {
 public:
  AlteredBatches(StepProtocol& inner, std::function<void(Batch&)> alter)
      : PassedOnSteps(inner), alter_(std::move(alter)) {}

  BatchView stage(const Batch& batch) override {
    altered_ = batch;
    alter_(altered_);
    return PassedOnSteps::stage(altered_);
  }

 private:
  std::function<void(Batch&)> alter_;
  Batch altered_ = {};
};

Break alters_batches(const std::function<void(Batch&)>& alter) {
  return [alter](LoadedModel& model) {
    model.steps_in_front = std::make_unique<AlteredBatches>(model.plan.ops->steps(), alter);
  };
}

// Attends to few keys where a sequence has more than `max_context`.
class ForgetfulAttention final : public PassedOnArithmetic {
 public:
  ForgetfulAttention(Arithmetic& inner, int max_context)
      : PassedOnArithmetic(inner), max_context_(max_context) {}

  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override {
    AttentionArgs broken = args;
    for (int64_t i = 0; batch.block_size == kBlock && i < batch.context_lens.rows; ++i) {
      if (int_at(batch.context_lens, i) > max_context_) broken.window = 8;
    }
    PassedOnArithmetic::attention(q, cache, batch, broken, out);
  }

 private:
  const int max_context_;
};

// CHECKs that the lines tell of a fault at these positions, by index of the request, and of no
// other: rows of logits differ from there on, and so do tokens at once or later.
void check_told(const Scene& scene, const Verified& verified, const Break& breaks,
                const std::map<int64_t, int64_t>& first_positions) {
  std::map<int64_t, int64_t> rows;
  for (const Json& row : verified.rows) {
    rows[row.integer("/index")] = row.integer("/position");
    CHECK(row.integer("/line") == row.integer("/index") + 1);
    CHECK(row.number("/largest_difference") > 0);
  }
  std::map<int64_t, int64_t> first_eight;
  for (const auto& [index, position] : first_positions) {
    if (first_eight.size() < 8) first_eight[index] = position;
  }
  CHECK(rows == first_eight);

  const auto [a, b] = scene.answers(breaks);
  std::map<int64_t, int64_t> expected, told;
  for (const auto& [index, tokens] : a) {
    const std::vector<TokenId>& others = b.at(index);
    REQUIRE(tokens.size() == others.size());
    const auto part = std::ranges::mismatch(tokens, others).in1 - tokens.begin();
    if (part == std::ssize(tokens)) continue;
    expected[index] = std::ssize(scene.request(index).prompt) + part;
    CHECK(expected[index] >= first_positions.at(index));
  }
  for (const Json& line : verified.differences) {
    const int64_t index = line.integer("/index"), token = line.integer("/token");
    told[index] = line.integer("/position");
    CHECK(line.integer("/line") == index + 1);
    CHECK(line.integer("/a/token_id") == a.at(index)[static_cast<size_t>(token)]);
    CHECK(line.integer("/b/token_id") == b.at(index)[static_cast<size_t>(token)]);
  }
  CHECK(told == expected);
  CHECK(!told.empty());
  CHECK(verified.exit_code == 2);
  CHECK(verified.counts->integer("/differ") == std::ssize(expected));
  CHECK(verified.counts->integer("/equal") == scene.num_requests() - std::ssize(expected));
}

}  // namespace

TEST_CASE("right configurations agree in every token and every logit, in every family") {
  std::vector<TinyFamily> families = tiny_newer_families(20, 2);
  for (const TinyFamily& family :
       {TinyFamily(), tiny_mistral(24), tiny_qwen2(20, 2), tiny_qwen3(), tiny_gemma3(16, 2)}) {
    families.push_back(family);
  }
  for (const TinyFamily& family : tiny_expert_families(20, 2)) families.push_back(family);
  for (const TinyFamily& family : families) {
    INFO(family.architecture);
    Scene scene({.dtype = DType::kBF16, .family = family});
    scene.write_all_kinds();
    const auto agree = [&](const std::function<void(Config&)>& change) {
      const Verified verified = scene.verify(change);
      const Json& counts = *verified.counts;
      CHECK(verified.exit_code == 0);
      CHECK(counts.integer("/requests") == 32);
      CHECK(counts.integer("/equal") == 32);
      CHECK(counts.integer("/equal_errors") == 6);
      CHECK(counts.integer("/tokens") > 300);
      CHECK(counts.integer("/rows") == counts.integer("/tokens") + scene.num_scored());
      CHECK(counts.integer("/log_probabilities") > scene.num_scored());
      CHECK(counts.integer("/rows_differ") == 0);
      CHECK(verified.differences.empty());
      CHECK(verified.rows.empty());
    };
    agree([](Config&) {});
    agree([](Config& b) {
      b.block_size = 4;
      b.num_blocks = 60;
      b.prefill_chunk_size = 7;
      b.admission_reserve = 0;
    });
    agree([](Config& b) {
      b.cpu_isa = CpuIsa::kPortable;
      b.threads = 2;
    });
  }
}

TEST_CASE("a wrong block table is told at the request and position where it begins") {
  Scene scene;
  scene.write({{12, 20}, {30, 9}, {20, 30}, {44, 12}, {21, 30}, {9, 40}});
  constexpr int kTarget = 2, kFrom = 35, kLast = 20 + 30 - 1;
  std::optional<int32_t> first_slot;
  // From some context on, the second block of one sequence is taken for its first one.
  const Break breaks = alters_batches([&](Batch& batch) {
    const std::vector<TokenId>& prompt = scene.request(kTarget).prompt;
    for (int i = 0; i < batch.num_seqs() && is_paged(batch); ++i) {
      const auto begin = static_cast<size_t>(batch.query_starts[static_cast<size_t>(i)]);
      int32_t* const table = &batch.block_table[static_cast<size_t>(i * batch.max_blocks)];
      const int context = batch.context_lens[static_cast<size_t>(i)];
      const bool begins = batch.positions[begin] == 0 && batch.tokens[begin] == prompt[0] &&
                          batch.tokens[begin + 1] == prompt[1];
      if (begins) first_slot = table[0];
      if (first_slot != table[0]) continue;
      if (context >= kFrom) table[1] = table[0];
      if (context == kLast) first_slot.reset();
    }
  });
  const Verified verified = scene.verify([](Config&) {}, breaks);
  check_told(scene, verified, breaks, {{kTarget, kFrom}});
}

TEST_CASE("a wrong position at the bounds of chunks is told of the prompts that have several") {
  Scene scene;
  scene.write({{30, 6}, {50, 6}, {32, 12}, {70, 4}, {3, 9}, {34, 9}, {100, 5}});
  const Break breaks = alters_batches([](Batch& batch) {
    for (size_t i = 0; i < batch.context_lens.size() && is_paged(batch); ++i) {
      const auto begin = static_cast<size_t>(batch.query_starts[i]);
      const int count = batch.query_starts[i + 1] - batch.query_starts[i];
      if (count > 1 && batch.positions[begin] > 0) ++batch.positions[begin];
    }
  });
  const Verified verified = scene.verify([](Config& b) { b.prefill_chunk_size = 32; }, breaks);
  check_told(scene, verified, breaks, {{1, 50}, {3, 70}, {5, 34}, {6, 100}});
}

TEST_CASE("wrong attention over long contexts is told where each request becomes long") {
  Scene scene;
  scene.write({{30, 6}, {36, 12}, {50, 6}, {40, 2}, {41, 1}, {3, 60}});
  const Break breaks = [](LoadedModel& model) {
    model.arithmetic_in_front =
        std::make_unique<ForgetfulAttention>(model.plan.ops->arithmetic(), 40);
  };
  const Verified verified = scene.verify([](Config& b) { b.max_batch_size = 1; }, breaks);
  check_told(scene, verified, breaks, {{1, 41}, {2, 50}, {3, 41}, {4, 41}, {5, 41}});
}

TEST_CASE("a wrong position is told of the rows of beams and of scored prompts") {
  Scene scene;
  WorkloadRandom random(10);
  const auto line = [&](int num_prompt, const char* rest) {
    return fmt::format("{{\"prompt_token_ids\": [{}], {}}}\n",
                       fmt::join(random.tokens(num_prompt, 61), ", "), rest);
  };
  write_file(scene.config.config.input, line(30, R"("max_tokens": 6, "beam_width": 3)") +
                                            line(40, R"("max_tokens": 0, "prompt_logprobs": 0)") +
                                            line(9, R"("max_tokens": 5, "beam_width": 2)"));
  const Break breaks = alters_batches([](Batch& batch) {
    for (int& position : batch.positions) position += position == 20 && is_paged(batch);
  });
  const Verified verified = scene.verify([](Config&) {}, breaks);
  CHECK(verified.exit_code == 2);
  REQUIRE(verified.rows.size() == 2);
  CHECK(verified.rows[0].integer("/index") == 0);
  CHECK(verified.rows[0].integer("/choice") == 0);
  CHECK(verified.rows[0].integer("/position") == 30);
  CHECK(verified.rows[1].integer("/index") == 1);
  CHECK(verified.rows[1]["/choice"] == "null");
  CHECK(verified.rows[1]["/token"] == "null");
  CHECK(verified.rows[1].integer("/position") == 21);
  for (const Json& row : verified.rows) CHECK(row.number("/largest_difference") > 0);
  REQUIRE(!verified.differences.empty());
  const Json& scores = verified.differences.back();
  CHECK(scores.text("/kind") == "log_probabilities");
  CHECK(scores.integer("/index") == 1);
  CHECK(scores.integer("/entry") == 21);
}

TEST_CASE("rows of two types of computation are computed once more in both") {
  Scene scene({.dtype = DType::kF32});
  scene.write({{12, 5}, {30, 9}, {5, 3}});
  scene.config.tolerance = 1000;
  const Verified verified = scene.verify([](Config& b) { b.dtype = DType::kBF16; });
  CHECK(verified.exit_code == 0);
  REQUIRE(verified.rows.size() == 3);
  for (const Json& row : verified.rows) {
    CHECK(row["/computed"] == "true");
    CHECK(row.number("/largest_difference") > 0);
    CHECK(row.number("/largest_difference") < 1);
  }
}

TEST_CASE("rows of two vocabularies differ, and are not computed once more") {
  const TinyModel smaller({.vocab = 40});
  Scene scene;
  WorkloadRandom random(11);
  write_file(scene.config.config.input,
             fmt::format("{{\"prompt_token_ids\": [{}], \"max_tokens\": 9}}\n"
                         "{{\"prompt_token_ids\": [50, 3]}}\n",
                         fmt::join(random.tokens(20, 40), ", ")));
  const Verified verified = scene.verify([&](Config& b) { b.model = smaller.dir(); });
  CHECK(verified.exit_code == 2);
  REQUIRE(verified.rows.size() == 1);
  CHECK(verified.rows[0].integer("/token") == 0);
  CHECK(verified.rows[0]["/computed"] == "false");
  CHECK(verified.rows[0]["/largest_difference"] == "null");
  REQUIRE(verified.differences.size() == 2);
  CHECK(verified.differences[1].text("/outcome_b") == "unknown_token_id");
}

TEST_CASE("keeping how tokens were drawn changes no answer") {
  const TinyModel files({.max_positions = 256});
  const Config config = configs_of_runs(files.dir(), Config::Device::kCpu)[1];
  LoadedModel model = load_model({config}, [] { return 0.0; });
  const auto complete_all = [&](int num_kept) {
    std::vector<Request> requests = requests_of(61);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].sampling.num_log_probs = static_cast<int>(i % 4) - 1;
      if (i % 5 == 0) requests[i].num_samples = requests[i].num_returned = 2;
    }
    std::map<int64_t, Completion> completions;
    Run run(model, model.plan.runs[0]);
    double now = 0;
    EngineParts parts = run.parts([&] { return now += 1; });
    parts.num_traced = num_kept;
    Engine engine(parts, model.plan.runs[0].limits);
    run_requests(engine, requests, [&](Completion completion) {
      completions[completion.head.index] = std::move(completion);
    });
    return completions;
  };
  const auto without = complete_all(-1), with = complete_all(2);
  REQUIRE(with.size() == 24);
  for (const auto& [index, completion] : with) {
    const Completion& same = without.at(index);
    CHECK(same.trace.prompts.empty());
    CHECK(same.trace.draws.empty());
    REQUIRE(completion.trace.prompts.size() == 1);
    CHECK(completion.trace.prompts[0] == requests_of(61)[static_cast<size_t>(index)].prompt);
    REQUIRE(completion.choices.size() == same.choices.size());
    for (size_t i = 0; i < same.choices.size(); ++i) {
      const CompletionChoice &choice = completion.choices[i], &other = same.choices[i];
      CHECK(choice.tokens == other.tokens);
      const std::vector<DrawnToken>& draws = completion.trace.draws.at(i);
      REQUIRE(draws.size() == choice.tokens.size());
      for (size_t t = 0; t < draws.size(); ++t) {
        CHECK(draws[t].token == choice.tokens[t]);
        CHECK(draws[t].candidates.size() == 2);
        CHECK(draws[t].log_probability);
      }
      REQUIRE(choice.log_probs.has_value() == other.log_probs.has_value());
      if (!choice.log_probs) continue;
      REQUIRE(choice.log_probs->size() == other.log_probs->size());
      for (size_t t = 0; t < choice.log_probs->size(); ++t) {
        CHECK((*choice.log_probs)[t].candidates == (*other.log_probs)[t].candidates);
        CHECK((*choice.log_probs)[t].log_probability == (*other.log_probs)[t].log_probability);
      }
    }
  }
}

TEST_CASE("an error in one configuration alone is a difference") {
  Scene scene;
  scene.write({{30, 6}, {60, 40}, {20, 6}});
  const Verified verified = scene.verify([](Config& b) { b.num_blocks = 6; });
  CHECK(verified.exit_code == 2);
  REQUIRE(verified.differences.size() == 1);
  CHECK(verified.differences[0].integer("/line") == 2);
  CHECK(verified.differences[0].text("/outcome_a") == "1 completions");
  CHECK(verified.differences[0].text("/outcome_b") == "exceeds_cache");
  CHECK(verified.counts->integer("/equal") == 2);
}

}  // namespace pagedinfer
