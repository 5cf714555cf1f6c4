#include "tests/support/engine_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "tests/support/grammar_support.h"

namespace pagedinfer {
namespace {

// Short words of few letters, so that stop strings occur often.
class LetterTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId token) const override { return letters_of(token); }
  int vocab_size() const override { return 1 << 20; }
};

const std::vector<std::string> kStops = {"bb", "abc", "c a", "aaa", "c c", "bab"};

// The position at which the text is cut by a stop string that ends after its first `before` bytes.
std::optional<size_t> find_stop(const std::string& text, size_t before,
                                std::span<const std::string> stops) {
  std::optional<size_t> cut;
  for (const std::string& stop : stops) {
    for (size_t at = text.find(stop); at != text.npos; at = text.find(stop, at + 1)) {
      if (at + stop.size() > before) cut = std::min(cut.value_or(at), at);
    }
  }
  return cut;
}

bool holds(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::count(tokens, token) > 0;
}

// The log probabilities of the first tokens, which begin at these places of the text.
std::vector<TokenLogProbs> shown(const std::vector<DrawnToken>& drawn,
                                 const std::vector<size_t>& begins) {
  std::vector<TokenLogProbs> tokens;
  for (size_t i = 0; i < begins.size(); ++i) {
    tokens.push_back({.token = drawn[i].token,
                      .log_probability = drawn[i].log_probability,
                      .candidates = drawn[i].candidates,
                      .text_offset = static_cast<int>(begins[i])});  // all letters are ASCII
  }
  return tokens;
}

struct SampleAlone {
  CompletionChoice choice = {};
  double mean = 0;  // of the log probabilities
};

std::string joined(const Rig::Tokens& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += letters_of(token);
  return text;
}

// Whether a token of the vocabulary may follow the text.
bool may_go_on(const RandomForm& form, const std::string& text, int vocab) {
  for (TokenId token = 0; token < vocab; ++token) {
    const std::string_view more = letters_of(token);
    if (!more.empty() && form.may_begin(text + std::string(more))) return true;
  }
  return false;
}

// The tokens that must not follow if the answer is to have the form.
Rig::Tokens banned_by(const RandomForm& form, const std::string& text, const Rig::Tokens& ends,
                      int vocab) {
  Rig::Tokens banned;
  const bool is_whole = form.is_whole(text);
  for (TokenId token = 0; token < vocab; ++token) {
    const std::string_view more = letters_of(token);
    const bool is_text = !more.empty() && form.may_begin(text + std::string(more));
    if (!(holds(ends, token) ? is_whole : is_text)) banned.push_back(token);
  }
  return banned;
}

SampleAlone sample_alone(Rig& rig, const Request& request, const RandomForm& form, int sample,
                         int max_model_len) {
  const bool is_guided = !form.form.is_free();
  const SamplingParams& params = request.sampling;
  const LetterTokenizer tokenizer;
  const auto num_prompt = static_cast<int>(request.prompt.size());
  CompletionChoice answer;
  std::vector<size_t> begins;  // in the text, of the tokens that belong to it
  std::vector<TokenId> ends = params.stop_token_ids.copy();
  if (!params.ignore_eos || is_guided) ends.push_back(kTinyStop);
  const ModelSpec& spec = rig.model.spec;
  const auto most = static_cast<size_t>(std::min(params.max_tokens, max_model_len - num_prompt));
  const auto is_last = [&](const Rig::Tokens& generated) {
    const bool by_force = spec.forced_end && !params.ignore_eos && generated.size() == most;
    answer.reason =
        by_force && generated.back() == kTinyStop ? FinishReason::kLength : FinishReason::kStop;
    if (generated.back() == kNoToken || holds(ends, generated.back())) return true;
    const size_t before = answer.text.size();
    begins.push_back(before);
    answer.text += tokenizer.token_bytes(generated.back());
    if (static_cast<int>(generated.size()) >= params.min_tokens) {
      if (const auto cut = find_stop(answer.text, before, params.stop)) {
        answer.text.resize(*cut);
        std::erase_if(begins, [&](size_t begin) { return begin >= *cut; });
        return true;
      }
    }
    if (is_guided && !by_force) {
      const std::string all = joined(generated);
      if (form.is_whole(all) && !may_go_on(form, all, spec.vocab)) return true;
    }
    answer.reason = FinishReason::kLength;
    return false;
  };
  const auto banned = [&](const Rig::Tokens& generated) {
    Rig::Tokens tokens = spec.suppressed;
    const auto add = [&](const Rig::Tokens& more) {
      tokens.insert(tokens.end(), more.begin(), more.end());
    };
    if (generated.empty()) add(spec.suppressed_first);
    const int least = std::max(params.min_tokens, params.floor.tokens);
    const std::string text = joined(generated);
    const bool has_form = is_guided && form.is_whole(text);
    if (!has_form && static_cast<int>(generated.size()) < least) add(ends);
    if (is_guided) add(banned_by(form, text, ends, spec.vocab));
    return tokens;
  };
  std::vector<DrawnToken> drawn;
  answer.tokens = rig.alone(request, max_model_len, is_last, banned, sample, &drawn);
  if (params.num_log_probs >= 0) answer.log_probs = shown(drawn, begins);
  SampleAlone result = {.choice = std::move(answer)};
  for (const DrawnToken& token : drawn) result.mean += token.log_probability.value_or(0);
  result.mean /= static_cast<double>(drawn.size());
  return result;
}

// Adds the choices of a prompt, or why it has none, to the answer of its line.
void add_alone(Rig& rig, const Request& request, const RandomForm& form, int max_model_len,
               Completion& answer) {
  answer.num_prompt_tokens += static_cast<int>(request.prompt.size());
  std::vector<SampleAlone> samples;
  for (int sample = 0; sample < request.num_samples; ++sample) {
    samples.push_back(sample_alone(rig, request, form, sample, max_model_len));
    const CompletionChoice& choice = samples.back().choice;
    answer.num_completion_tokens += std::ssize(choice.tokens);
    if (choice.tokens.back() != kNoToken || answer.failed()) continue;
    answer.error = {"form_impossible", "", choice.text};
  }
  for (int i = 0; i < request.num_returned; ++i) {
    const bool are_ranked = request.num_returned < request.num_samples;
    const auto best =
        are_ranked ? std::ranges::max_element(samples, {}, &SampleAlone::mean) : samples.begin();
    answer.choices.push_back(std::move(best->choice));
    samples.erase(best);
  }
}

Completion answer_alone(Rig& rig, const PreparedLine& line, const RandomForm& form,
                        int max_model_len) {
  Completion answer = {.head = line.head};
  for (const Request& request : line.prompts) {
    add_alone(rig, request, form, max_model_len, answer);
  }
  if (answer.failed()) {
    answer.num_completion_tokens = 0;
    answer.choices.clear();
  }
  return answer;
}

// Why the request can never run; empty if it can.
ErrorCode error_of(const Request& request, int max_model_len, int64_t positions_total) {
  const auto num_prompt = static_cast<int>(request.prompt.size());
  const int longest = std::min(num_prompt + request.sampling.max_tokens, max_model_len);
  return longest - 1 > positions_total ? ErrorCode("exceeds_cache") : ErrorCode();
}

Completion error_answer(const RecordHead& head, int num_prompt_tokens, ErrorCode code) {
  return {.head = head, .num_prompt_tokens = num_prompt_tokens, .error = {code, ""}};
}

// The test's side of the engine's ports.
class Caller {
 public:
  Caller(const SchedulerLimits& limits, const std::vector<Line>& lines, FormCompiler& compiler,
         const WatchedOps& ops, Overlap overlap, std::function<double()> clock)
      : lines_(lines),
        compiler_(compiler),
        ops_(ops),
        clock_(std::move(clock)),
        window_(limits.max_waiting + limits.max_running) {
    if (overlap == Overlap::kYes) window_ += limits.max_running;  // whose last token is in flight
  }

  Pull next(Wait wait, EngineLine& pulled) {
    REQUIRE((wait == Wait::kNo || ops_.unasked.empty()));
    REQUIRE((!owed_ || run.answers.contains(*owed_)));
    owed_.reset();
    REQUIRE(!ended_);
    if (num_read_ == std::ssize(lines_)) {
      ended_ = true;
      return Pull::kEnded;
    }
    const Line& line = lines_[static_cast<size_t>(num_read_)];
    if (line.step > std::ssize(run.steps)) {  // every second line is there and has not arrived
      const bool is_read = num_read_ % 2 == 0;
      if (wait == Wait::kNo) return is_read ? Pull::kNotArrived : Pull::kLater;
      if (wait == Wait::kForLine && is_read) return Pull::kNotArrived;
    }
    pulled.item = line.item;
    RecordHead& head = head_of(pulled.item);
    if (head.arrived == 0) head.arrived = clock_();
    ++num_read_;
    if (const auto* const prepared = std::get_if<PreparedLine>(&pulled.item)) {
      pulled.form = compile_form(prepared->prompts.front().sampling.form, compiler_);
    } else {
      owed_ = head.index;
    }
    REQUIRE(num_read_ - std::ssize(run.answers) <= window_);
    return Pull::kItem;
  }

  void done(Completion answer, const RequestStats& stats) {
    const int64_t index = answer.head.index;
    REQUIRE(index < num_read_);
    REQUIRE(stats.head.index == index);
    REQUIRE(run.requests.emplace(index, stats).second);
    REQUIRE(run.answers.emplace(index, std::move(answer)).second);
  }

  void stepped(const StepStats& step) {
    run.steps.push_back(step);
    run.num_answered.push_back(static_cast<int>(run.answers.size()));
  }

  EngineRun run;

 private:
  const std::vector<Line>& lines_;
  FormCompiler& compiler_;
  const WatchedOps& ops_;
  const std::function<double()> clock_;
  int64_t window_;
  int64_t num_read_ = 0;
  bool ended_ = false;
  std::optional<int64_t> owed_;  // an error line that must be answered at once
};

void check_request(const Completion& answer, const RequestStats& stats) {
  REQUIRE(stats.error_code == answer.error.code);
  REQUIRE(stats.prompt_tokens == answer.num_prompt_tokens);
  REQUIRE(answer.head.arrived == stats.head.arrived);
  REQUIRE(answer.timing.admitted == stats.admitted);
  REQUIRE(answer.timing.first_token == stats.first_token);
  REQUIRE(answer.timing.finished == stats.finished);
  REQUIRE(stats.head.arrived > 0);
  if (stats.failed()) {  // before anything was computed
    REQUIRE(stats.finished > stats.head.arrived);
    REQUIRE(stats.admitted == 0);
    REQUIRE(stats.first_token == 0);
    return;
  }
  REQUIRE(stats.head.arrived < stats.admitted);
  REQUIRE(stats.admitted < stats.first_token);
  REQUIRE(stats.token_times.size() >= answer.choices.size());
  const bool are_all = stats.token_times.size() == answer.choices.size();
  int64_t num_tokens = 0;
  double first = stats.finished, last = 0;
  for (size_t i = 0; i < stats.token_times.size(); ++i) {
    const std::vector<double>& times = stats.token_times[i];
    REQUIRE((!are_all || times.size() == answer.choices[i].tokens.size()));
    REQUIRE(std::ranges::is_sorted(times, std::less_equal<>()));
    first = std::min(first, times.front()), last = std::max(last, times.back());
    num_tokens += std::ssize(times);
  }
  REQUIRE(stats.completion_tokens == num_tokens);
  REQUIRE(answer.num_completion_tokens == num_tokens);
  REQUIRE(stats.first_token == first);
  REQUIRE(stats.finished == last);
  const bool may_recompute = stats.preemptions > 0 || stats.token_times.size() > 1;
  REQUIRE((may_recompute || stats.recomputed_tokens == 0));
  REQUIRE(stats.recomputed_tokens >= 0);
}

double sum_of(const StepTimes& t) { return t.plan + t.stage + t.forward + t.sample + t.commit; }

void check_step(const StepStats& step) {
  const StepTimes& t = step.times;
  for (const double time : {t.plan, t.stage, t.forward, t.sample, t.commit}) REQUIRE(time > 0);
  REQUIRE(sum_of(t) < step.end - step.begin);
  REQUIRE(step.failures == 0);
  REQUIRE(step.num_tokens == step.num_prefill_tokens + step.num_decodes);
  REQUIRE(step.num_tokens > 0);
  REQUIRE(step.num_surplus <= step.num_decodes);
  REQUIRE(step.num_decodes <= step.num_sampled);
  // A step that draws in a form is described when the one before is committed.
  REQUIRE(step.cache.tokens_served + step.num_surplus >= step.num_tokens);
  REQUIRE(step.cache.tokens_held <= step.pool.positions_leased);
  REQUIRE(step.pool.positions_leased <= step.pool.positions_total);
  REQUIRE(step.cache.positions_contiguous >= step.cache.tokens_held);
}

std::vector<std::string> vocabulary(const Tokenizer& tokenizer, int size) {
  std::vector<std::string> tokens;
  for (TokenId token = 0; token < size; ++token) tokens.emplace_back(tokenizer.token_bytes(token));
  return tokens;
}

// The cache is empty: what earlier runs have published must not be found.
void forget_blocks(KvPool& pool) {
  const auto room = pool.free_tokens();
  if (!room) return;
  const std::vector<TokenId> tokens(static_cast<size_t>(*room));
  KvLease all = pool.open(tokens, 0, kShareNone).value();
  pool.close(all);
}

}  // namespace

std::string_view letters_of(TokenId token) {
  constexpr std::string_view kWords[] = {"a", "b", "ab", "c ", "", "ba", "aab"};
  return kWords[token % std::ssize(kWords)];
}

std::vector<Line> make_lines(const Workload& work, WorkloadRandom& random, Forms forms) {
  std::vector<Line> lines;
  const auto add = [&](int step, IntakeItem item) {
    const int64_t index = std::ssize(lines);
    std::visit([&](auto& content) { content.head = {.index = index, .line = 2 * index + 1}; },
               item);
    lines.push_back({step, std::move(item)});
  };
  for (const auto& [step, arrival] : work.arrivals) {
    if (random.one_in(6)) add(step, error_answer({}, 0, "invalid_json"));
    Request request = arrival;
    SamplingParams& params = request.sampling;
    if (random.one_in(2)) {
      for (int i = random.pick(1, 3); i > 0; --i) {
        params.stop.push_back(kStops[static_cast<size_t>(random.pick(0, 5))]);
      }
    }
    if (random.one_in(3)) params.stop_token_ids = random.tokens(random.pick(1, 3), kTinyVocab);
    if (random.one_in(3)) params.min_tokens = random.pick(1, params.max_tokens);
    if (random.one_in(4)) params.floor.tokens = random.pick(1, params.max_tokens);
    params.ignore_eos = random.one_in(3);
    if (random.one_in(4)) params.num_log_probs = random.pick(0, 3);
    RandomForm form;
    if (forms == Forms::kSome && random.one_in(2)) {
      // Of a c alone there is no token.
      std::mt19937 letters(static_cast<unsigned>(random.pick(0, 1 << 20)));
      form = random_form(letters, random.one_in(20) ? 3 : 2);
      params.form = form.form;
    }
    PreparedLine prepared = line_of(std::move(request));
    while (random.one_in(10)) {
      Request other = prepared.prompts.front();
      const int longest = std::min(12, work.limits.max_model_len - 1);
      other.prompt = random.tokens(random.pick(1, longest), kTinyVocab);
      other.random_key += prepared.prompts.size();
      prepared.prompts.push_back(std::move(other));
    }
    add(step, std::move(prepared));
    lines.back().form = std::move(form);
  }
  if (random.one_in(3)) add(lines.back().step, error_answer({}, 0, "invalid_json"));
  return lines;
}

EngineRun run_engine(Rig& rig, KvPool& pool, const SchedulerLimits& limits,
                     const std::vector<Line>& lines, Overlap overlap,
                     const Interference& interference) {
  const LetterTokenizer tokenizer;
  FormCompiler compiler([&] { return vocabulary(tokenizer, rig.model.spec.vocab); });
  double now = 0;
  const auto clock = [&] { return now += 1; };
  Caller caller(limits, lines, compiler, rig.ops, overlap, clock);
  rig.start();
  forget_blocks(pool);
  rig.ops.unasked.clear();
  rig.ops.max_unasked = 0;
  const bool overlaps = overlap == Overlap::kYes;
  try {
    Engine engine({rig.model.spec, rig.weights, rig.cache, pool, rig.ops, rig.ops.arithmetic(),
                   &tokenizer, clock, overlaps},
                  limits);
    const auto done = [&](Completion answer, const RequestStats& stats) {
      interference.before_answer();
      caller.done(std::move(answer), stats);
    };
    engine.run({.next = [&](Wait wait, EngineLine& line) { return caller.next(wait, line); },
                .done = done,
                .stepped = [&](const StepStats& step) { caller.stepped(step); },
                .interrupted = interference.interrupted});
    REQUIRE(rig.ops.unasked.empty());
  } catch (const std::exception& error) {
    caller.run.thrown = error.what();
  }
  REQUIRE(rig.ops.max_unasked <= 1 + overlaps);
  pool.check_invariants();
  REQUIRE(pool.num_leaked({}) == 0);
  REQUIRE(pool.stats().positions_leased == 0);
  caller.run.logit_rows = rig.logit_rows();
  return std::move(caller.run);
}

EngineRun expected_run(Rig& rig, const SchedulerLimits& limits, int64_t positions_total,
                       const std::vector<Line>& lines) {
  EngineRun run;
  rig.start();
  for (const Line& line : lines) {
    if (const auto* error = std::get_if<Completion>(&line.item)) {
      run.answers[error->head.index] = *error;
      continue;
    }
    const auto& prepared = std::get<PreparedLine>(line.item);
    ErrorCode error;
    int num_prompt = 0;
    for (const Request& request : prepared.prompts) {
      num_prompt += static_cast<int>(request.prompt.size());
      if (error.empty()) error = error_of(request, limits.max_model_len, positions_total);
    }
    run.answers[prepared.head.index] =
        error.empty() ? answer_alone(rig, prepared, line.form, limits.max_model_len)
                      : error_answer(prepared.head, num_prompt, error);
  }
  run.logit_rows = rig.logit_rows();
  return run;
}

namespace {

std::string text_of(const Completion& answer) {
  std::string text(answer.error.code.name());
  for (const CompletionChoice& choice : answer.choices) text += choice.text + "|";
  return text;
}

}  // namespace

bool same_answer(const Completion& a, const Completion& b) {
  const auto same_token = [](const TokenLogProbs& c, const TokenLogProbs& d) {
    return c.token == d.token && c.log_probability == d.log_probability &&
           c.candidates == d.candidates && c.text_offset == d.text_offset;
  };
  const auto same_choice = [&](const CompletionChoice& c, const CompletionChoice& d) {
    return c.tokens == d.tokens && c.text == d.text && c.reason == d.reason &&
           c.log_probs.has_value() == d.log_probs.has_value() &&
           (!c.log_probs || std::ranges::equal(*c.log_probs, *d.log_probs, same_token));
  };
  return a.head.index == b.head.index && a.head.line == b.head.line &&
         std::ranges::equal(a.choices, b.choices, same_choice) && a.error.code == b.error.code &&
         a.error.text == b.error.text && a.num_prompt_tokens == b.num_prompt_tokens &&
         a.num_completion_tokens == b.num_completion_tokens;
}

void check_answers(const EngineRun& run, const EngineRun& expected) {
  REQUIRE(run.thrown == "");
  REQUIRE(run.answers.size() == expected.answers.size());
  for (const auto& [index, answer] : run.answers) {
    const Completion& other = expected.answers.at(index);
    INFO("line " << index << ": " << text_of(answer) << " against " << text_of(other));
    REQUIRE(same_answer(answer, other));
  }
  // The runs may differ in surplus rows only.
  const auto check_rows = [](const EngineRun& a, const EngineRun& b) {
    int num_others = 0;
    for (const auto& [place, hash] : a.logit_rows) {
      const auto it = b.logit_rows.find(place);
      if (it == b.logit_rows.end()) {
        ++num_others;
      } else {
        REQUIRE(it->second == hash);
      }
    }
    // Tokens that a failed step drew are not counted.
    const auto has_failed = [](const StepStats& step) { return step.failures > 0; };
    REQUIRE((num_others <= num_surplus(a) || std::ranges::any_of(a.steps, has_failed)));
  };
  check_rows(run, expected);
  check_rows(expected, run);
}

int num_surplus(const EngineRun& run) {
  int num_rows = 0;
  for (const StepStats& step : run.steps) num_rows += step.num_surplus;
  return num_rows;
}

void check_records(const EngineRun& run, Overlap overlap) {
  int64_t tokens = num_surplus(run), drawn = num_surplus(run), admitted = 0, preempted = 0;
  bool has_samples = false;
  for (const auto& [index, stats] : run.requests) {
    check_request(run.answers.at(index), stats);
    if (stats.failed()) continue;
    const auto num_samples = static_cast<int>(stats.token_times.size());
    has_samples = has_samples || num_samples > 1;
    tokens += stats.prompt_tokens + stats.completion_tokens - num_samples +
              stats.recomputed_tokens - stats.cached_tokens;
    drawn += stats.completion_tokens;
    admitted += 1 + stats.preemptions;
    preempted += stats.preemptions;
  }
  double last_begin = 0, last_end = 0, busy = 0;
  for (const StepStats& step : run.steps) {
    check_step(step);
    REQUIRE(step.begin > (overlap == Overlap::kYes ? last_begin : last_end));
    REQUIRE(step.end > last_end);
    last_begin = step.begin, last_end = step.end;
    busy += sum_of(step.times);
    REQUIRE(busy < last_end);
    tokens -= step.num_tokens;
    drawn -= step.num_sampled;
    admitted -= step.admitted;
    preempted -= step.preempted;
  }
  REQUIRE(tokens == 0);
  REQUIRE(drawn == 0);
  // A sequence that ends while it waits, preempted with its last token in flight, is not admitted
  // again; a sample that finds no room when its prompt is computed is admitted once more.
  REQUIRE((has_samples || admitted >= 0));
  REQUIRE((has_samples || overlap == Overlap::kYes || admitted == 0));
  REQUIRE(preempted == 0);
}

}  // namespace pagedinfer
