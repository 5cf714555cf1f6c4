#include "commands/bench/bench_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "commands/bench/bench_results.h"
#include "commands/run/validate.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "io/file_names.h"
#include "io/interrupt.h"
#include "load/model_path.h"
#include "load/open_store.h"
#include "load/system_memory.h"
#include "output/output_file.h"
#include "stats/comparison.h"
#include "stats/table.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

constexpr int kMinRequestsOfP99 = 200;
constexpr int kDefaultPairs = 3;

void print_row(const std::string& name, const std::string& text) {
  std::fputs(table_row(name, text).c_str(), stderr);
}

class BenchRun {
 public:
  BenchRun(const BenchConfig& bench, const LoadAll& load, Interrupt& interrupt)
      : bench_(bench), load_(load), interrupt_(interrupt), shape_(shape_of(bench)) {}

  int run();

 private:
  bool only_emits() const {
    return !bench_.emit.empty() && bench_.results.empty() && bench_.compare.empty();
  }
  std::vector<Config> all_configs() const;
  // The configuration of a run over the file `input`. Outputs that were not given are temporary.
  Config run_of(const Config& config, const std::string& input) const;
  void draw();
  void write(OutputFile& file, double rate);
  void emit(double rate);
  void measure_capacity();
  double rate() const { return bench_.load ? *bench_.load * capacity_ : workload_.shape.rate; }
  void print_workload(const Summary& summary) const;
  int measure();
  int compare();
  JobResult run_in_turn(size_t i, bool is_measured);
  bool promises_same_completions() const;
  void keep(const std::string& line);
  MeasuredWorkload measured() const { return {bench_, workload_, rate(), capacity_}; }

  const BenchConfig& bench_;
  const LoadAll& load_;
  Interrupt& interrupt_;
  const WorkloadShape shape_;
  const TemporaryFolder folder_ = {};
  const std::string input_ = bench_.emit.empty() ? folder_.file("workload.jsonl") : bench_.emit;
  const std::vector<Config> configs_ = all_configs();  // the others are compared with the first
  const Config& config_ = configs_.front();
  std::optional<OutputFile> results_ = {};
  std::vector<TokenId> ordinary_ = {};
  BenchWorkload workload_ = {};
  std::optional<LoadedModel> model_ = {};
  double capacity_ = 0;  // requests per second, if the rate is a share of it
};

Config BenchRun::run_of(const Config& config, const std::string& input) const {
  Config run = config;
  run.input = input;
  if (run.output.empty()) {
    run.output = folder_.file("completions.jsonl");
    run.overwrite = true;
  }
  if (shape_.max_batch_size > 0 && !run.max_batch_size.is_given) {
    run.max_batch_size.value = shape_.max_batch_size;
  }
  return run;
}

std::vector<Config> BenchRun::all_configs() const {
  if (bench_.compare.empty()) return {run_of(bench_.config, input_)};
  std::vector<Config> configs;
  for (const Variant& variant : bench_.compare) configs.push_back(run_of(variant.config, input_));
  return configs;
}

// Makes the workload. Reads the parts of the model that it needs, but no weights.
void BenchRun::draw() {
  const std::string dir = find_model(config_.model, program_path());
  const auto source =
      config_.weights == Config::Weights::kDummy ? WeightSource::kDummy : WeightSource::kFiles;
  const ModelStore store = open_store(dir);
  const ModelSpec spec = open_model(store, source).spec;
  ordinary_ = ordinary_tokens(spec, make_tokenizer(store).get());
  if (ordinary_.empty()) throw Error(fmt::format("{}: the tokenizer has no token of text", dir));
  std::vector<TraceRow> trace;
  if (shape_.from_trace) trace = read_trace(bench_.trace_csv, shape_.requests);
  int max_model_len = spec.max_positions;
  for (const Config& config : configs_) {
    max_model_len = std::min(max_model_len, config.max_model_len.value_or(max_model_len));
  }
  workload_ = make_workload(shape_, bench_.seed(), max_model_len, trace);
  if (bench_.time_scale) workload_.shape.rate /= *bench_.time_scale;
}

void BenchRun::write(OutputFile& file, double rate) {
  std::string line;
  for (int i = 0; i < shape_.requests; ++i) {
    line.clear();
    append_workload_line(line, workload_, i, rate, ordinary_);
    file.append(line);
  }
  file.close();
}

// Writes the workload to the file that is run.
void BenchRun::emit(double rate) {
  const bool replaces = bench_.emit.empty() || bench_.config.overwrite;
  OutputFile file(input_,
                  replaces ? OutputFile::Existing::kReplace : OutputFile::Existing::kRefuse);
  write(file, rate);
}

// Runs the workload with all requests arriving at once.
void BenchRun::measure_capacity() {
  Config config = config_;
  config.input = folder_.file("at_once.jsonl");
  config.output = folder_.file("at_once.completions.jsonl");
  config.stats.clear();
  config.trace.clear();
  config.overwrite = config.quiet = true;
  OutputFile file(config.input, OutputFile::Existing::kReplace);
  write(file, 0);
  const JobResult result = run_over(config, *model_, model_->plan.runs.front(), interrupt_);
  interrupt_.throw_if_happened();
  capacity_ = result.summary.per_second(result.summary.completed);
  if (capacity_ <= 0) throw Error("--load: no request completed, so there is no capacity");
}

void BenchRun::print_workload(const Summary& summary) const {
  std::string text =
      fmt::format("{}, {} requests, seed {}", shape_.name, shape_.requests, bench_.seed());
  text += rate() > 0 ? fmt::format(", {} requests/s", three_digits(rate())) : ", all at once";
  print_row("workload", text);
  if (bench_.load) {
    print_row("", fmt::format("{} of the {} requests/s of all at once", percent(*bench_.load),
                              three_digits(capacity_)));
  }
  if (workload_.num_clipped > 0) {
    print_row("",
              fmt::format("requests clipped to fit --max-model-len: {}", workload_.num_clipped));
  }
  if (summary.completed > 0 && summary.completed < kMinRequestsOfP99) {
    print_row("", fmt::format("p99 rests on {} requests; take {} where it counts",
                              summary.completed, kMinRequestsOfP99));
  }
}

void BenchRun::keep(const std::string& line) {
  if (!results_) return;
  results_->append(line);
  results_->close();
}

// One run of `config_`, with the output of `run`.
int BenchRun::measure() {
  const JobResult result = run_over(config_, *model_, model_->plan.runs.front(), interrupt_);
  if (!config_.quiet) print_workload(result.summary);
  if (result.exit_code == exit_code::kInterrupted) return result.exit_code;
  std::string line;
  append_result_line(line, measured(), result);
  keep(line);
  return result.exit_code;
}

// Whether all configurations must give the same completions. Their model, requests and sampling
// settings are the same in any case.
bool BenchRun::promises_same_completions() const {
  const auto has_type_of_first = [&](const RunPlan& plan) {
    return plan.kv_type == model_->plan.runs.front().kv_type;
  };
  if (!std::ranges::all_of(model_->plan.runs, has_type_of_first)) return false;
  const bool is_deterministic =
      model_->plan.backend->info.always_deterministic || config_.deterministic;
  return is_deterministic && config_.order == Config::Order::kInput && !config_.record_timing;
}

// A run that prints nothing. Only measured runs write statistics and a trace.
JobResult BenchRun::run_in_turn(size_t i, bool is_measured) {
  Config config = configs_[i];
  config.quiet = true;
  if (!is_measured) {
    config.stats = folder_.file("unmeasured.stats.jsonl");
    config.trace.clear();
  }
  JobResult result = run_over(config, *model_, model_->plan.runs[i], interrupt_);
  if (result.exit_code == exit_code::kInterrupted) throw Interrupted();
  if (result.exit_code != exit_code::kDone) {
    throw Error(
        fmt::format("--compare: configuration {} ({}): {}", i + 1, bench_.compare[i].flags,
                    result.exit_code == exit_code::kFailed
                        ? "blocks of the cache leaked, expected none"
                        : fmt::format("{} requests failed, expected none", result.summary.failed)));
  }
  return result;
}

// Runs rounds of all configurations. A warm-up round comes first and is not measured.
int BenchRun::compare() {
  const int num_rounds = bench_.pairs.value_or(kDefaultPairs);
  const std::string expected = folder_.file("expected.jsonl");
  Comparison comparison;
  std::optional<std::string> difference;
  if (promises_same_completions()) comparison.same_completions = true;
  for (int round = 0; round <= num_rounds; ++round) {
    for (size_t i = 0; i < configs_.size(); ++i) {
      const JobResult result = run_in_turn(i, round > 0);
      if (round == 0) {
        comparison.infos.push_back(result.info);
        comparison.runs.push_back({.flags = bench_.compare[i].flags});
        if (i == 0) std::filesystem::copy_file(configs_[i].output, expected);
      } else {
        comparison.runs[i].runs.push_back(result.summary);
      }
      if (!config_.quiet && config_.progress != Config::Progress::kOff) {
        fmt::print(stderr, "round {} of {}, configuration {}: {}\n", round, num_rounds, i + 1,
                   human_seconds(result.summary.duration));
      }
      if (!comparison.same_completions || difference) continue;
      const auto line = first_difference(expected, configs_[i].output);
      if (!line) continue;
      comparison.same_completions = false;
      difference = fmt::format("those of configuration {} in round {} differ from line {} on",
                               i + 1, round, *line);
    }
  }
  if (!config_.quiet) {
    for (size_t i = 0; i < configs_.size(); ++i) {
      for (const std::string& note : comparison.infos[i].notes) {
        fmt::print(stderr, "note: configuration {}: {}\n", i + 1, note);
      }
    }
    std::fputs(comparison_table(comparison.runs).c_str(), stderr);
    print_row("completions", difference                    ? *difference
                             : comparison.same_completions ? "the same in all runs"
                                                           : "may differ; not compared");
    print_workload(comparison.runs.front().runs.front());
  }
  std::string line;
  append_comparison_line(line, measured(), comparison);
  keep(line);
  if (difference) throw Error(fmt::format("--compare: completions: {}", *difference));
  return exit_code::kDone;
}

int BenchRun::run() {
  for (const Config& config : configs_) validate(config);
  draw();
  if (!bench_.results.empty()) results_.emplace(bench_.results, OutputFile::Existing::kAppend);
  // With at least two plans, loading touches the cache's memory before the first run.
  std::vector<Config> planned = configs_;
  if (planned.size() == 1) planned.push_back(config_);
  if (bench_.load || !only_emits()) model_.emplace(load_(planned, clock_from_now()));
  interrupt_.throw_if_happened();
  if (bench_.load) measure_capacity();
  emit(rate());
  if (!only_emits()) return bench_.compare.empty() ? measure() : compare();
  if (!config_.quiet) {
    print_workload({});
    print_row("", fmt::format("is {}", bench_.emit == "-" ? "on standard output"
                                                          : fmt::format("in {}", bench_.emit)));
  }
  return exit_code::kDone;
}

}  // namespace

int run_bench(const BenchConfig& bench, const LoadAll& load) {
  limit_heaps();
  Interrupt interrupt;
  try {
    return BenchRun(bench, load, interrupt).run();
  } catch (const Interrupted&) {
    if (!bench.config.quiet) std::fputs("interrupted: nothing was measured\n", stderr);
    return exit_code::kInterrupted;
  }
}

}  // namespace pagedinfer
