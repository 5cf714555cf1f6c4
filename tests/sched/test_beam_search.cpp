// The rules of beam search alone: against transformers, and against a second implementation that
// ranks all continuations and masks what it must not take.
#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "sched/beam_search.h"
#include "tests/support/model_goldens.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

using Tokens = std::vector<TokenId>;
using Row = std::vector<float>;  // log probabilities of all tokens
// The row of log probabilities behind a beam, given its tokens.
using Model = std::function<Row(const Tokens&)>;
using Found = std::vector<std::pair<Tokens, double>>;  // tokens and score, best first

std::vector<TokenCandidate> likeliest(const Row& row, int count) {
  std::vector<TokenCandidate> all;
  for (size_t i = 0; i < row.size(); ++i) all.push_back({static_cast<TokenId>(i), row[i]});
  std::ranges::stable_sort(all, std::greater<>(), &TokenCandidate::log_probability);
  all.resize(std::min(all.size(), static_cast<size_t>(count)));
  return all;
}

BeamSearch::RoleOf roles(const Tokens& ends, const Tokens& banned = {}) {
  return [&ends, &banned](const Beam&, TokenId token) {
    if (std::ranges::count(banned, token) > 0) return TokenRole::kBanned;
    return std::ranges::count(ends, token) > 0 ? TokenRole::kEnds : TokenRole::kGoesOn;
  };
}

Found search(const BeamSettings& settings, int max_tokens, const Tokens& ends, const Model& model) {
  BeamSearch search(settings, max_tokens);
  const int count = BeamSearch::num_candidates(settings.width, static_cast<int>(ends.size()));
  while (!search.is_done()) {
    std::vector<BeamSearch::Candidates> candidates;
    for (const Beam& beam : search.running()) {
      candidates.push_back(likeliest(model(beam.tokens), count));
    }
    search.step(candidates, roles(ends));
  }
  Found found;
  for (const FinishedBeam& beam : search.finished()) found.emplace_back(beam.tokens, beam.score);
  return found;
}

double power(int length, double penalty) { return static_cast<float>(std::pow(length, penalty)); }

// As transformers does it: arrays of a fixed size, in which -1e9 stands for what is not there.
Found search_by_masks(const BeamSettings& settings, int max_tokens, const Tokens& ends,
                      const Model& model) {
  constexpr double kNone = -1e9;
  const int width = settings.width;
  const int num_kept = std::max(2, 1 + static_cast<int>(ends.size())) * width;
  std::vector<Tokens> running(width), finished(width);
  std::vector<double> sums(width, kNone), scores(width, kNone);
  std::vector<bool> is_finished(width, false);
  sums[0] = 0;
  for (int length = 1;; ++length) {
    std::vector<std::tuple<double, int, TokenId>> all;
    for (int beam = 0; beam < width; ++beam) {
      const Row row = model(running[beam]);
      for (size_t token = 0; token < row.size(); ++token) {
        all.emplace_back(-(sums[beam] + double{row[token]}), beam, static_cast<TokenId>(token));
      }
    }
    std::ranges::sort(all);
    all.resize(static_cast<size_t>(num_kept));

    std::vector<std::pair<double, int>> next, merged;  // (-score, place)
    std::vector<Tokens> kept;
    std::vector<bool> hits;
    for (int i = 0; i < width; ++i) merged.emplace_back(-scores[i], i);
    for (int i = 0; i < num_kept; ++i) {
      const auto& [minus, beam, token] = all[static_cast<size_t>(i)];
      kept.push_back(running[beam]);
      kept.back().push_back(token);
      const bool hit = length == max_tokens || std::ranges::count(ends, token) > 0;
      hits.push_back(hit);
      next.emplace_back(minus + (hit ? 1e9 : 0), i);
      const double score = -minus / power(length, settings.length_penalty);
      merged.emplace_back(-score + (hit && i < width ? 0 : 1e9), width + i);
    }
    std::ranges::sort(next);
    std::ranges::sort(merged);
    const std::vector<Tokens> before = finished;
    const std::vector<bool> was_finished = is_finished;
    for (int i = 0; i < width; ++i) {
      running[i] = kept[next[static_cast<size_t>(i)].second];
      sums[i] = -next[static_cast<size_t>(i)].first;
      const auto [minus, place] = merged[static_cast<size_t>(i)];
      scores[i] = -minus;
      finished[i] = place < width ? before[place] : kept[place - width];
      is_finished[i] =
          place < width ? was_finished[place] : hits[place - width] && place < 2 * width;
    }
    const bool all_finished = std::ranges::count(is_finished, true) == width;
    const bool never = settings.early_stopping == EarlyStopping::kNever;
    const int best_length = never && settings.length_penalty > 0 ? max_tokens : length;
    const double best = sums[0] / power(best_length, settings.length_penalty);
    const double worst = all_finished ? *std::ranges::min_element(scores) : kNone;
    if (best <= worst || std::ranges::count(hits, false) == 0) break;
    if (all_finished && settings.early_stopping == EarlyStopping::kOn) break;
  }
  Found found;
  for (int i = 0; i < width; ++i) found.emplace_back(finished[i], scores[i]);
  return found;
}

// A row that depends on the last two tokens. Coarse ones have many ties.
Row random_row(int seed, const Tokens& tokens, int vocab, bool is_coarse) {
  const int last = tokens.empty() ? 0 : 1 + tokens.back();
  const int second = tokens.size() < 2 ? 0 : 1 + tokens[tokens.size() - 2];
  WorkloadRandom random(seed * 10007 + last * 101 + second);
  Row row;
  for (int i = 0; i < vocab; ++i) {
    row.push_back(is_coarse ? -0.5f * static_cast<float>(random.pick(1, 8))
                            : -static_cast<float>(random.pick(1, 1 << 20)) / (1 << 17));
  }
  return row;
}

const EarlyStopping kEarly[] = {EarlyStopping::kOff, EarlyStopping::kOn, EarlyStopping::kNever};

EarlyStopping early_stopping(simdjson::dom::element value) {
  bool on = false;
  if (value.get(on) != simdjson::SUCCESS) return EarlyStopping::kNever;
  return on ? EarlyStopping::kOn : EarlyStopping::kOff;
}

}  // namespace

TEST_CASE("a beam search over a table finds the beams that transformers finds") {
  simdjson::dom::parser parser;
  simdjson::dom::document_stream records;
  simdjson::padded_string text;
  REQUIRE(simdjson::padded_string::load(source_dir() + "/tests/data/beams.jsonl").get(text) ==
          simdjson::SUCCESS);
  REQUIRE(parser.parse_many(text).get(records) == simdjson::SUCCESS);
  std::vector<Row> table;
  int num_searches = 0;
  for (const simdjson::dom::element record : records) {
    if (table.empty()) {
      for (const simdjson::dom::element row : record["log_probs"]) table.push_back(floats(row));
      continue;
    }
    const BeamSettings settings = {.width = static_cast<int>(int64_t(record["width"])),
                                   .length_penalty = record["length_penalty"],
                                   .early_stopping = early_stopping(record["early_stopping"])};
    const auto prompt = static_cast<TokenId>(int64_t(record["prompt"]));
    const Found found = search(
        settings, static_cast<int>(int64_t(record["max_tokens"])), ints(record["ends"]),
        [&](const Tokens& tokens) { return table[tokens.empty() ? prompt : tokens.back()]; });
    const simdjson::dom::array beams = record["beams"];
    REQUIRE(found.size() == beams.size());
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK_MESSAGE(found[i].first == ints(beams.at(i)["tokens"]), simdjson::minify(record));
      CHECK(found[i].second == doctest::Approx(double(beams.at(i)["score"])).epsilon(1e-5));
    }
    ++num_searches;
  }
  CHECK(num_searches == 432);
}

TEST_CASE("a beam search finds what a search by masks over all continuations finds") {
  WorkloadRandom random(1);
  for (int round = 0; round < scaled(3000); ++round) {
    const int vocab = random.pick(24, 40);
    Tokens ends = random.tokens(random.pick(0, 3), vocab);
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    const BeamSettings settings = {.width = random.pick(1, 6),
                                   .length_penalty = random.pick(-4, 8) / 4.0,
                                   .early_stopping = kEarly[random.pick(0, 2)]};
    const int max_tokens = random.pick(1, 12);
    // Many rows are peaked: then beams that go on beat those that ended.
    const bool is_coarse = random.one_in(3), is_peaked = random.one_in(2);
    const Model model = [&](const Tokens& tokens) {
      Row row = random_row(round, tokens, vocab, is_coarse);
      for (float& x : row) x *= is_peaked ? x * x / 64 : 1;
      return row;
    };
    const Found found = search(settings, max_tokens, ends, model);
    const Found expected = search_by_masks(settings, max_tokens, ends, model);
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].first == expected[i].first);
      REQUIRE(found[i].second == doctest::Approx(expected[i].second).epsilon(1e-12));
    }
  }
}

TEST_CASE("a search that never stops early counts on length only where length pays") {
  const BeamSettings settings = {
      .width = 2, .length_penalty = -1, .early_stopping = EarlyStopping::kNever};
  const Model model = [](const Tokens& tokens) -> Row {  // of an end and two other tokens
    if (tokens.empty()) return {-2, -1, -3};
    if (tokens == Tokens{1}) return {-1.5f, -0.1f, -9};
    if (tokens == Tokens{1, 1}) return {-0.05f, -4, -9};
    return {-9, -9, -9};
  };
  const Found found = search(settings, 6, {0}, model);
  REQUIRE(found.size() == 2);
  CHECK(found[0].first == Tokens{0});
  CHECK(found[1].first == Tokens{1, 1, 0});  // at six tokens it would be worse than {1, 0}
  CHECK(search_by_masks(settings, 6, {0}, model)[1].first == found[1].first);
}

TEST_CASE("banned tokens and logits that are no numbers are no candidates of a beam search") {
  BeamSearch search({.width = 2}, 3);
  const Tokens ends = {3}, banned = {0};
  const BeamSearch::Candidates offered = {
      {0, -0.1f}, {1, -0.5f}, {2, -INFINITY}, {4, NAN}, {3, -4.0f}};
  search.step(std::vector<BeamSearch::Candidates>{offered}, roles(ends, banned));
  REQUIRE(search.running().size() == 1);
  CHECK(search.running()[0].tokens == Tokens{1});
  REQUIRE(search.finished().size() == 1);
  CHECK(search.finished()[0].tokens == Tokens{3});
  CHECK_FALSE(search.is_done());
  search.step(std::vector<BeamSearch::Candidates>{{{0, -0.1f}}}, roles(ends, banned));
  CHECK(search.is_done());
  CHECK(search.finished().size() == 1);
}

TEST_CASE("a beam knows its parent, and what ended it") {
  BeamSearch search({.width = 2}, 2);
  const Tokens ends = {3};
  search.step(std::vector<BeamSearch::Candidates>{{{1, -1.0f}, {2, -2.0f}, {3, -9.0f}}},
              roles(ends));
  search.step(std::vector<BeamSearch::Candidates>{{{4, -9.0f}}, {{5, -1.0f}, {3, -0.5f}}},
              roles(ends));
  REQUIRE(search.is_done());
  REQUIRE(search.finished().size() == 2);
  CHECK(search.finished()[0].tokens == Tokens{2, 3});
  CHECK(search.finished()[0].reason == FinishReason::kStop);
  CHECK(search.finished()[0].sum == -2.5);
  CHECK(search.finished()[0].score == doctest::Approx(-1.25));
  CHECK(search.finished()[1].tokens == Tokens{2, 5});
  CHECK(search.finished()[1].reason == FinishReason::kLength);
}
