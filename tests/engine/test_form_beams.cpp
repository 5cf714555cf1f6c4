// Beam searches for answers in a form, against a search of this file's own, which looks at every
// token of every beam and asks a reference what may follow.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/engine_run.h"
#include "tests/support/grammar_support.h"

using namespace pagedinfer;

namespace {

struct Found {
  Rig::Tokens tokens;
  double score = 0;
  FinishReason reason = FinishReason::kStop;
};

class Search {
 public:
  Search(Rig& rig, const Request& request, const RandomForm& form, int max_model_len)
      : rig_(rig),
        request_(request),
        form_(form),
        max_tokens_(std::min(request.sampling.max_tokens,
                             max_model_len - static_cast<int>(request.prompt.size()))),
        ends_(request.sampling.stop_token_ids.copy()) {
    if (!request.sampling.ignore_eos || is_guided()) ends_.push_back(kTinyStop);
  }

  std::vector<Found> run() {
    while (step()) {
    }
    return found_;
  }
  const std::string& last_text() const { return last_text_; }  // of the best beam that went on

 private:
  struct Continuation {
    double sum;
    size_t beam;
    TokenId token;
  };

  bool is_guided() const { return !form_.form.is_free(); }
  bool ends(TokenId token) const { return std::ranges::count(ends_, token) > 0; }

  static std::string text_of(const Rig::Tokens& tokens) {
    std::string text;
    for (const TokenId token : tokens) text += letters_of(token);
    return text;
  }

  bool may_follow(const Rig::Tokens& tokens, TokenId token) const {
    const std::string text = text_of(tokens);
    const bool is_early = std::ssize(tokens) < request_.sampling.min_tokens;
    if (!is_guided()) return !(ends(token) && is_early);
    if (ends(token)) return form_.is_whole(text);
    const std::string_view more = letters_of(token);
    return !more.empty() && form_.may_begin(text + std::string(more));
  }

  bool is_over(const Rig::Tokens& tokens) const {
    if (ends(tokens.back())) return true;
    if (!is_guided() || !form_.is_whole(text_of(tokens))) return false;
    for (TokenId token = 0; token < rig_.model.spec.vocab; ++token) {
      const std::string_view more = letters_of(token);
      if (!more.empty() && form_.may_begin(text_of(tokens) + std::string(more))) return false;
    }
    return true;
  }

  bool step() {
    std::vector<Continuation> all;
    for (size_t beam = 0; beam < beams_.size(); ++beam) {
      Rig::Tokens known = request_.prompt;
      known.insert(known.end(), beams_[beam].begin(), beams_[beam].end());
      for (const TokenCandidate& next : rig_.behind(known)) {
        if (!may_follow(beams_[beam], next.token)) continue;
        all.push_back({sums_[beam] + double{next.log_probability}, beam, next.token});
      }
    }
    std::ranges::sort(all, {},
                      [](const Continuation& c) { return std::tuple(-c.sum, c.beam, c.token); });
    last_text_ = text_of(beams_.front());
    const std::vector<Rig::Tokens> before = std::exchange(beams_, {});
    sums_.clear();
    const auto width = static_cast<size_t>(request_.sampling.beams.width);
    const bool is_last = ++length_ == max_tokens_;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      Rig::Tokens tokens = before[all[rank].beam];
      tokens.push_back(all[rank].token);
      if (is_last || is_over(tokens)) {
        if (rank >= width) continue;
        const FinishReason reason = is_over(tokens) ? FinishReason::kStop : FinishReason::kLength;
        found_.push_back({tokens, score(all[rank].sum, length_), reason});
      } else if (beams_.size() < width) {
        beams_.push_back(tokens);
        sums_.push_back(all[rank].sum);
      }
    }
    std::ranges::stable_sort(found_, std::greater<>(), &Found::score);
    found_.resize(std::min(found_.size(), width));
    return !beams_.empty() && may_improve();
  }

  double score(double sum, int length) const {
    const double power = std::pow(length, request_.sampling.beams.length_penalty);
    return sum / double{static_cast<float>(power)};
  }

  bool may_improve() const {
    const BeamSettings& settings = request_.sampling.beams;
    if (std::ssize(found_) < settings.width) return true;
    if (settings.early_stopping == EarlyStopping::kOn) return false;
    const bool never = settings.early_stopping == EarlyStopping::kNever;
    const int length = never && settings.length_penalty > 0 ? max_tokens_ : length_;
    return score(sums_[0], length) > found_.back().score;
  }

  Rig& rig_;
  const Request& request_;
  const RandomForm& form_;
  const int max_tokens_;
  Rig::Tokens ends_;
  std::vector<Rig::Tokens> beams_ = {{}};
  std::vector<double> sums_ = {0};
  std::vector<Found> found_;
  std::string last_text_;
  int length_ = 0;
};

// Half of the requests of a workload search.
std::vector<Line> lines_with_searches(const Workload& work, WorkloadRandom& random) {
  std::vector<Line> lines = make_lines(work, random, Forms::kSome);
  for (Line& line : lines) {
    PreparedLine* const prepared = std::get_if<PreparedLine>(&line.item);
    if (prepared == nullptr || random.one_in(2)) continue;
    prepared->prompts.resize(1);
    Request& request = prepared->prompts.front();
    SamplingParams& params = request.sampling;
    params = {.form = params.form,
              .max_tokens = params.max_tokens,
              .min_tokens = params.min_tokens,
              .ignore_eos = params.ignore_eos,
              .stop_token_ids = params.stop_token_ids,
              .beams = random_beams(random, 4)};
    request.num_samples = 1;
    request.num_returned = params.beams.width;
  }
  return lines;
}

bool searches(const Line& line) {
  const PreparedLine* const prepared = std::get_if<PreparedLine>(&line.item);
  return prepared != nullptr && prepared->prompts.front().sampling.beams.width > 1;
}

}  // namespace

TEST_CASE("a search for an answer in a form finds in any company what one over all tokens finds") {
  if (is_skipped_without_grammar()) return;
  const TinyModel files(tiny_shapes()[0]);
  const OpenedModel model = open_model(files.dir());
  const CpuOptions options = {
      .isa = available_isas().back(), .num_threads = 2, .compute = DType::kF32};
  Rig rig(model, options);
  Counters counters;
  for (int trial = 0; trial < scaled(60); ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(9000 + trial);
    Workload work = random_workload(random, kTinyVocab);
    work.arrivals.resize(std::min<size_t>(work.arrivals.size(), 12));
    vary_sampling(work.arrivals, random);
    const std::vector<Line> lines = lines_with_searches(work, random);
    std::vector<Line> others;
    for (const Line& line : lines) {
      if (!searches(line)) others.push_back(line);
    }
    const auto compare = [&](KvPool& pool) {
      scramble(pool, random);
      const EngineRun run = run_engine(rig, pool, work.limits, lines,
                                       random.one_in(2) ? Overlap::kYes : Overlap::kNo);
      REQUIRE(run.thrown == "");
      REQUIRE(run.answers.size() == lines.size());
      const EngineRun alone = expected_run(rig, work.limits, pool.stats().positions_total, others);
      for (const auto& [index, answer] : alone.answers) {
        REQUIRE(same_answer(run.answers.at(index), answer));
      }
      for (size_t i = 0; i < lines.size(); ++i) {
        const Completion& answer = run.answers.at(static_cast<int64_t>(i));
        const bool has_run = !answer.failed() || answer.error.code == "form_impossible";
        if (!searches(lines[i]) || !has_run) continue;
        const Request& request = std::get<PreparedLine>(lines[i].item).prompts.front();
        const bool is_guided = !lines[i].form.form.is_free();
        INFO("line " << i << ": " << (is_guided ? lines[i].form.form.texts[0] : "free"));
        Search search(rig, request, lines[i].form, work.limits.max_model_len);
        const std::vector<Found> found = search.run();
        REQUIRE(answer.choices.size() == found.size());
        REQUIRE(answer.failed() == found.empty());
        if (answer.failed()) REQUIRE(answer.error.text == search.last_text());
        for (size_t beam = 0; beam < found.size(); ++beam) {
          REQUIRE(answer.choices[beam].tokens == found[beam].tokens);
          REQUIRE(answer.choices[beam].reason == found[beam].reason);
          REQUIRE(answer.choices[beam].score.value() == doctest::Approx(found[beam].score));
        }
        const RequestStats& stats = run.requests.at(static_cast<int64_t>(i));
        ++counters.of[is_guided ? "searches in a form" : "free searches"];
        counters.of["form_impossible"] += found.empty();
        counters.of["fewer than asked for"] +=
            is_guided && std::ssize(found) < request.sampling.beams.width;
        counters.of["preempted searches"] += stats.preemptions > 0;
      }
    };
    if (random.one_in(2)) work.num_blocks = work.num_blocks / 2 + 1;
    PagedPool blocks(work.num_blocks, work.block_size);
    compare(blocks);
    const int max_model_len = work.limits.max_model_len;
    ContiguousPool reservations(max_model_len * work.num_reservations, max_model_len);
    compare(reservations);
  }
  counters.print_and_require({"searches in a form", "free searches", "form_impossible",
                              "fewer than asked for", "preempted searches"});
}
