#include "commands/verify/verify_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "commands/run/validate.h"
#include "commands/verify/answer_comparison.h"
#include "commands/verify/answer_file.h"
#include "commands/verify/verify_report.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "core/hash.h"
#include "core/refusal.h"
#include "engine/engine.h"
#include "intake/token_labels.h"
#include "io/file_names.h"
#include "io/interrupt.h"
#include "io/open_file.h"
#include "load/model_path.h"
#include "load/open_store.h"
#include "load/quantization.h"
#include "load/run.h"
#include "load/system_memory.h"
#include "ops/logit_reader.h"
#include "output/output_file.h"
#include "settings/table.h"
#include "settings/values.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

constexpr int kNumCandidates = 4;  // kept of each draw, to know the other run's token
constexpr int kMaxRows = 8;        // rows of logits that are computed again
constexpr int kMaxShown = 10;      // requests whose differences are printed

uint64_t hash_of_row(std::span<const float> row) {
  return hash_bytes(0, {reinterpret_cast<const char*>(row.data()), row.size_bytes()});
}

bool is_equal(const Setting& setting, const Config& a, const Config& b) {
  return text_of(setting, setting.field.get(a)) == text_of(setting, setting.field.get(b));
}

// Whether one loaded model serves both.
bool share_model(const Config& a, const Config& b) {
  return std::ranges::all_of(kSettings, [&](const Setting& setting) {
    return can_share_model(setting) || is_equal(setting, a, b);
  });
}

// The types in which a run computes and caches keys and values, and the type of its loaded weights.
struct Types {
  DType compute, cache;
  Quantization quantize;
};

Types types_of(const Config& config) {
  const std::string dir = find_model(config.model, program_path());
  const auto source =
      config.weights == Config::Weights::kDummy ? WeightSource::kDummy : WeightSource::kFiles;
  const OpenedModel model = open_model(open_store(dir), source);
  const BackendInfo& backend = choose_backend(config.device).row.info;
  const DType asked = config.dtype.value_or(file_dtype(model));
  const DeviceOptions used =
      backend.resolve({.compute = asked, .cache = asked, .cpu_isa = config.cpu_isa});
  return {used.compute, config.kv_dtype.value_or(used.cache),
          choose_quantization(config.quantize, model.quantized.has_codes(), backend)};
}

// The difference between the configurations that makes the last bits differ; "" if there is none.
std::string_view difference_in_rounding(const Config& a, const Config& b) {
  const Types of_a = types_of(a), of_b = types_of(b);
  if (of_a.compute != of_b.compute) return "types of computation";
  if (of_a.quantize != of_b.quantize) return "types of weights";
  return of_a.cache == of_b.cache ? "" : "types of the cache";
}

// Finds the token whose two logits differ most. A row that could not be computed is empty.
// REQUIRES: both rows have the same vocabulary.
void find_largest_difference(const std::vector<float>& a, const std::vector<float>& b,
                             RowDifference& result) {
  if (a.empty() || b.empty()) {
    result.why_not = "a step failed";
    return;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i])) continue;
    const float difference = std::abs(a[i] - b[i]);
    if (result.largest && !(difference > *result.largest)) continue;
    result.largest = difference;
    result.token = static_cast<TokenId>(i);
  }
}

std::vector<TokenId> tokens_before(const Completion& answer, const TokenPlace& place) {
  std::vector<TokenId> tokens = answer.trace.prompts[static_cast<size_t>(place.prompt)];
  if (place.choice >= 0) {
    const std::vector<TokenId>& drawn = answer.choices[static_cast<size_t>(place.choice)].tokens;
    tokens.insert(tokens.end(), drawn.begin(), drawn.end());
  }
  tokens.resize(static_cast<size_t>(place.position));
  return tokens;
}

class Verify {
 public:
  Verify(const VerifyConfig& verify, const LoadAll& load, Interrupt& interrupt)
      : verify_(verify),
        load_(load),
        interrupt_(interrupt),
        a_(side_of("--a", verify.a)),
        b_(side_of("--b", verify.b)) {}

  int run();

 private:
  struct Side {
    std::string_view flag;
    std::string flags;
    Config config;
    AnswerFile answers = {};
    JobResult result = {};
    int vocab = 0;  // of the model
  };
  using Contexts = std::vector<std::vector<TokenId>>;

  Side side_of(std::string_view flag, const Variant& variant) const;
  bool is_quiet() const { return verify_.config.quiet; }
  void check() const;
  void check_side(const Side& side) const;
  void load(const std::vector<const Side*>& sides);
  void run_side(Side& side, size_t plan);
  void print_notes() const;
  void for_each_pair(const std::function<void(const Completion& a, const Completion& b,
                                              const AnswerComparison& comparison)>& f) const;
  void count();
  void recompute_rows(bool shares_model);
  std::vector<std::vector<float>> logits_behind(const Contexts& contexts, const RunPlan& plan);
  void report();

  const VerifyConfig& verify_;
  const LoadAll& load_;
  Interrupt& interrupt_;
  Side a_, b_;
  std::optional<OutputFile> output_ = {};

  // The loaded model. With --logits, a LogitReader stands between the engine and the model's
  // device.
  std::unique_ptr<StepProtocol> behind_reader_ = {};
  LogitReader::Read read_ = {};
  std::optional<LoadedModel> model_ = {};

  VerifyCounts counts_ = {};
  std::vector<RowDifference> rows_ = {};
  Contexts contexts_ = {};  // the tokens before each of rows_
};

Verify::Side Verify::side_of(std::string_view flag, const Variant& variant) const {
  Side side = {.flag = flag, .flags = variant.flags, .config = variant.config};
  Config& config = side.config;
  config.output = "/dev/null";
  config.order = Config::Order::kCompletion;
  return side;
}

void Verify::check_side(const Side& side) const {
  try {
    validate(side.config);
    const bool is_on_host = choose_backend(side.config.device).row.device == Config::Device::kCpu;
    if (verify_.logits && !is_on_host) {
      throw Error("--logits: only the CPU shows its logits; leave it out, or give --device cpu");
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{} '{}': {}", side.flag, shortened(side.flags), error.what()));
  }
}

void Verify::check() const {
  const Config& config = verify_.config;
  if (is_stream(config.input)) {
    throw Error(fmt::format("--input {}: verify reads it twice; put it into a file", config.input));
  }
  Config files = config;  // to check all files against each other
  files.output = verify_.output.empty() ? "-" : verify_.output;
  if (files.stats.empty()) files.stats = "/dev/null";
  validate(files);
  check_side(a_);
  check_side(b_);
  const OpenFile input(config.input);
  if (verify_.tolerance) return;
  const std::string_view difference = difference_in_rounding(a_.config, b_.config);
  if (difference.empty()) return;
  throw Error(fmt::format(
      "--tolerance: --a and --b have two {}, which round in other places; say how far apart the "
      "logits of two tokens may be that count as equally likely, as in --tolerance 0.05",
      difference));
}

void Verify::load(const std::vector<const Side*>& sides) {
  model_.reset();  // frees memory before the next model is loaded
  std::vector<Config> configs;
  for (const Side* const side : sides) configs.push_back(side->config);
  model_.emplace(load_(configs, clock_from_now()));
  interrupt_.throw_if_happened();
  if (!verify_.logits) return;
  behind_reader_ = std::move(model_->steps_in_front);
  StepProtocol& steps = behind_reader_ ? *behind_reader_ : model_->plan.ops->steps();
  model_->steps_in_front = std::make_unique<LogitReader>(
      steps, [this](std::span<const float> row) { return read_(row); });
}

void Verify::run_side(Side& side, size_t plan) {
  read_ = hash_of_row;
  side.vocab = model_->plan.opened.spec.vocab;
  side.result = run_over(side.config, *model_, model_->plan.runs[plan], interrupt_,
                         {.num_candidates = kNumCandidates,
                          .answered = [&](const Completion& answer) { side.answers.add(answer); },
                          .tells = false});
  if (side.result.exit_code == exit_code::kInterrupted) throw Interrupted();
  side.answers.finish();
  if (is_quiet()) return;
  const Summary& summary = side.result.summary;
  const std::string found =
      fmt::format("{} requests in {}; {} preemptions, {} tokens found",
                  grouped(summary.completed + summary.failed), human_seconds(summary.duration),
                  grouped(summary.sum.preempted), grouped(summary.sum.tokens_found));
  std::fputs((table_row(side.flag.substr(2), side.flags) + table_row("", found)).c_str(), stderr);
}

void Verify::print_notes() const {
  const std::vector<std::string>&a = a_.result.info.notes, &b = b_.result.info.notes;
  const auto has = [](const std::vector<std::string>& notes, const std::string& note) {
    return std::ranges::find(notes, note) != notes.end();
  };
  for (const std::string& note : a) {
    fmt::print(stderr, "note: {}{}\n", has(b, note) ? "" : "a: ", note);
  }
  for (const std::string& note : b) {
    if (!has(a, note)) fmt::print(stderr, "note: b: {}\n", note);
  }
}

// Calls f in the order of the input.
void Verify::for_each_pair(const std::function<void(const Completion&, const Completion&,
                                                    const AnswerComparison&)>& f) const {
  for (int64_t turn = 0; turn < a_.answers.size(); ++turn) {
    const Completion a = a_.answers.read(turn), b = b_.answers.read(turn);
    if (a.head.line != b.head.line) {
      throw Error(fmt::format("{}: it was changed between the two runs", verify_.config.input));
    }
    f(a, b, compare_answers(a, b, verify_.tolerance, verify_.logits));
    interrupt_.throw_if_happened();
  }
}

// Adds up the comparisons and collects the first rows of logits that differ.
void Verify::count() {
  if (a_.answers.size() != b_.answers.size()) {
    throw Error(fmt::format("{}: a had {} requests and b {}; it was changed between the two runs",
                            verify_.config.input, a_.answers.size(), b_.answers.size()));
  }
  for_each_pair([&](const Completion& a, const Completion&, const AnswerComparison& comparison) {
    counts_.add(a, comparison);
    if (!comparison.first_row || std::ssize(rows_) == kMaxRows) return;
    const TokenPlace& place = *comparison.first_row;
    rows_.push_back({.turn = a.head.turn, .place = place});
    contexts_.push_back(tokens_before(a, place));
  });
}

// REQUIRES: the model of b, or the model of both, is loaded. Rows are not computed if the
// vocabularies differ.
void Verify::recompute_rows(bool shares_model) {
  if (rows_.empty()) return;
  if (a_.vocab != b_.vocab) {
    for (RowDifference& row : rows_) row.why_not = "the models have two vocabularies";
    return;
  }
  const auto b = logits_behind(contexts_, model_->plan.runs.back());
  if (!shares_model) load({&a_});
  const auto a = logits_behind(contexts_, model_->plan.runs.front());
  for (size_t i = 0; i < rows_.size(); ++i) find_largest_difference(a[i], b[i], rows_[i]);
}

// The logits after each context. Contexts are computed one at a time.
std::vector<std::vector<float>> Verify::logits_behind(const Contexts& contexts,
                                                      const RunPlan& plan) {
  std::vector<std::vector<float>> logits(contexts.size());
  size_t num_read = 0, num_done = 0;
  read_ = [&](std::span<const float> row) {
    logits[num_done].assign(row.begin(), row.end());
    return uint64_t{0};
  };
  SchedulerLimits alone = plan.limits;
  alone.max_running = alone.max_waiting = 1;
  Run run(*model_, plan);
  Engine engine(run.parts(clock_from_now()), alone);
  engine.run({.next =
                  [&](Wait, EngineLine& line) {
                    if (num_read == contexts.size()) return Pull::kEnded;
                    Request& request = line.item.emplace<PreparedLine>().prompts.emplace_back();
                    request.prompt = contexts[num_read++];
                    request.sampling.max_tokens = 1;
                    return Pull::kItem;
                  },
              .done = [&](const Completion&, const RequestStats&) { ++num_done; },
              .stepped = [](const StepStats&) {},
              .interrupted = [this] { return interrupt_.happened(); }});
  interrupt_.throw_if_happened();
  return logits;
}

void Verify::report() {
  const TokenLabels label_of = [this](TokenId token) {
    return token_label(model_->plan.tokenizer.get(), token);
  };
  const VerifiedRuns runs = {.version = a_.result.info.version,
                             .input = verify_.config.input,
                             .a = a_.flags,
                             .b = b_.flags,
                             .tolerance = verify_.tolerance,
                             .has_rows = verify_.logits};
  if (!is_quiet()) {
    print_notes();
    std::fputs(verify_table(runs, counts_).c_str(), stderr);
  }
  int64_t num_shown = 0;
  auto next_row = rows_.begin();
  for_each_pair([&](const Completion& a, const Completion& b, const AnswerComparison& comparison) {
    std::string lines;
    if (output_) append_difference_lines(lines, a, b, comparison, label_of);
    const bool shows = !is_quiet() && num_shown < kMaxShown;
    const std::string text = difference_text(a, b, comparison, label_of);
    if (shows) std::fputs(text.c_str(), stderr);
    if (next_row != rows_.end() && next_row->turn == a.head.turn) {
      if (output_) append_row_line(lines, a.head, *next_row);
      if (!is_quiet()) std::fputs(row_text(a.head, *next_row).c_str(), stderr);
      ++next_row;
    }
    num_shown += shows && !text.empty();
    if (output_) output_->append(lines);
  });
  if (const int64_t more = counts_.differ + counts_.tolerated - num_shown;
      more > 0 && !is_quiet()) {
    fmt::print(stderr, "and {} more requests; {}\n", grouped(more),
               output_ ? "all are in the output" : "--output FILE tells all");
  }
  if (!output_) return;
  std::string line;
  append_verify_line(line, runs, counts_);
  output_->append(line);
  output_->close();
}

int Verify::run() {
  check();
  if (!verify_.output.empty()) {
    output_.emplace(verify_.output, verify_.config.overwrite ? OutputFile::Existing::kReplace
                                                             : OutputFile::Existing::kRefuse);
  }
  const bool shares_model = share_model(a_.config, b_.config);
  load(shares_model ? std::vector<const Side*>{&a_, &b_} : std::vector<const Side*>{&a_});
  run_side(a_, 0);
  if (!shares_model) load({&b_});
  run_side(b_, shares_model ? 1 : 0);
  count();
  recompute_rows(shares_model);
  report();
  for (const Side* side : {&a_, &b_}) {
    if (side->result.exit_code == exit_code::kFailed) return exit_code::kFailed;
  }
  return counts_.differ > 0 ? exit_code::kSomeWrong : exit_code::kDone;
}

}  // namespace

int run_verify(const VerifyConfig& verify, const LoadAll& load) {
  limit_heaps();
  Interrupt interrupt;
  try {
    return Verify(verify, load, interrupt).run();
  } catch (const Interrupted&) {
    if (!verify.config.quiet) std::fputs("interrupted: nothing was compared\n", stderr);
    return exit_code::kInterrupted;
  }
}

}  // namespace pagedinfer
