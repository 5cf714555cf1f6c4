#include "engine/bench_job.h"

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "engine/bench_results.h"
#include "engine/interrupt.h"
#include "engine/job.h"
#include "engine/loaded_model.h"
#include "engine/model_path.h"
#include "engine/ordinary_tokens.h"
#include "engine/system_memory.h"
#include "engine/validate.h"
#include "io/temporary_folder.h"
#include "output/output_file.h"
#include "stats/table.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

constexpr int kMinRequestsOfP99 = 200;

void print_row(const std::string& name, const std::string& text) {
  fmt::print(stderr, "{:<13}{}\n", name, text);
}

double no_clock() { return 0; }

class Bench {
 public:
  Bench(const BenchConfig& bench, Interrupt& interrupt)
      : bench_(bench), interrupt_(interrupt), shape_(shape_of(bench)) {}

  int run();

 private:
  bool only_emits() const { return !bench_.emit.empty() && bench_.results.empty(); }
  // A run of this file, whose outputs are temporary unless they were given.
  Config run_of(const Config& config, const std::string& input) const;
  void draw(int max_model_len);
  void write(OutputFile& file, double rate);
  void emit(double rate);
  void measure_capacity();
  double rate() const { return bench_.load ? *bench_.load * capacity_ : workload_.shape.rate; }
  void print_workload(const Summary& summary) const;
  void keep(const JobResult& result);

  const BenchConfig& bench_;
  Interrupt& interrupt_;
  const WorkloadShape shape_;
  const TemporaryFolder folder_ = {};
  const std::string input_ = bench_.emit.empty() ? folder_.file("workload.jsonl") : bench_.emit;
  const Config config_ = run_of(bench_.config, input_);
  std::optional<OutputFile> results_ = {};
  std::vector<TokenId> ordinary_ = {};
  BenchWorkload workload_ = {};
  std::optional<LoadedModel> model_ = {};
  double capacity_ = 0;  // requests per second, where the rate is a share of it
};

Config Bench::run_of(const Config& config, const std::string& input) const {
  Config run = config;
  run.input = input;
  if (run.output.empty()) {
    run.output = folder_.file("completions.jsonl");
    run.overwrite = true;
  }
  if (run.stats.empty()) run.stats = folder_.file("stats.jsonl");
  if (shape_.max_batch_size > 0 && !run.max_batch_size.is_given) {
    run.max_batch_size.value = shape_.max_batch_size;
  }
  return run;
}

// Reads what the workload needs of the model, and no weights.
void Bench::draw(int max_model_len) {
  const std::string dir = find_model(config_.model, program_path());
  const auto source =
      config_.weights == Config::Weights::kDummy ? WeightSource::kDummy : WeightSource::kFiles;
  const ModelSpec spec = open_model(dir, source).spec;
  ordinary_ = ordinary_tokens(spec, make_tokenizer(dir).get());
  if (ordinary_.empty()) throw Error(fmt::format("{}: the tokenizer has no token of text", dir));
  std::vector<TraceRow> trace;
  if (shape_.from_trace) trace = read_trace(bench_.trace_csv, shape_.requests);
  workload_ =
      make_workload(shape_, bench_.seed, std::min(max_model_len, spec.max_positions), trace);
  if (bench_.time_scale) workload_.shape.rate /= *bench_.time_scale;
}

void Bench::write(OutputFile& file, double rate) {
  std::string line;
  for (int i = 0; i < shape_.requests; ++i) {
    line.clear();
    append_workload_line(line, workload_, i, rate, ordinary_);
    file.append(line);
  }
  file.close();
}

// Writes the file that is run.
void Bench::emit(double rate) {
  const bool replaces = bench_.emit.empty() || bench_.config.overwrite;
  OutputFile file(input_,
                  replaces ? OutputFile::Existing::kReplace : OutputFile::Existing::kRefuse);
  write(file, rate);
}

// Runs the workload with all requests there at once.
void Bench::measure_capacity() {
  Config config = run_of(bench_.config, folder_.file("at_once.jsonl"));
  config.output = folder_.file("at_once.completions.jsonl");
  config.stats = folder_.file("at_once.stats.jsonl");
  config.trace.clear();
  config.overwrite = config.quiet = true;
  OutputFile file(config.input, OutputFile::Existing::kReplace);
  write(file, 0);
  const JobResult result = run_over(config, *model_, model_->plans.front(), interrupt_);
  interrupt_.throw_if_happened();
  capacity_ = result.summary.request_throughput;
  if (capacity_ <= 0) throw Error("--load: no request completed, so there is no capacity");
}

void Bench::print_workload(const Summary& summary) const {
  std::string text =
      fmt::format("{}, {} requests, seed {}", shape_.name, shape_.requests, bench_.seed);
  text += rate() > 0 ? fmt::format(", {} requests/s", three_digits(rate())) : ", all at once";
  print_row("workload", text);
  if (bench_.load) {
    print_row("", fmt::format("{} of the {} requests/s of all at once", percent(*bench_.load),
                              three_digits(capacity_)));
  }
  if (workload_.num_clipped > 0) {
    print_row("",
              fmt::format("{} prompts were clipped to fit --max-model-len", workload_.num_clipped));
  }
  if (summary.completed > 0 && summary.completed < kMinRequestsOfP99) {
    print_row("", fmt::format("p99 rests on {} requests; take {} where it counts",
                              summary.completed, kMinRequestsOfP99));
  }
}

void Bench::keep(const JobResult& result) {
  if (!results_) return;
  std::string line;
  append_result_line(line, {bench_, workload_, rate(), capacity_}, result);
  results_->append(line);
  results_->close();
}

int Bench::run() {
  validate(config_);
  draw(config_.max_model_len.value_or(std::numeric_limits<int>::max()));
  if (!bench_.results.empty()) results_.emplace(bench_.results, OutputFile::Existing::kAppend);
  const bool needs_model = bench_.load || !only_emits();
  // Two plans: the memory is touched before the first run.
  if (needs_model) model_.emplace(load_model({config_, config_}, no_clock));
  interrupt_.throw_if_happened();
  if (bench_.load) measure_capacity();
  emit(rate());
  if (only_emits()) {
    if (!config_.quiet) {
      print_workload({});
      print_row("", fmt::format("is in {}", bench_.emit));
    }
    return 0;
  }
  const JobResult result = run_over(config_, *model_, model_->plans.front(), interrupt_);
  if (!config_.quiet) print_workload(result.summary);
  if (result.exit_code != kInterruptedCode) keep(result);
  return result.exit_code;
}

}  // namespace

int run_bench(const BenchConfig& bench) {
  limit_heaps();
  Interrupt interrupt;
  try {
    return Bench(bench, interrupt).run();
  } catch (const Interrupted&) {
    if (!bench.config.quiet) std::fputs("interrupted: nothing was measured\n", stderr);
    return kInterruptedCode;
  }
}

}  // namespace pagedinfer
