#include "commands/run/job.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "commands/output_paths.h"
#include "commands/run/outlets.h"
#include "commands/run/run_console.h"
#include "commands/run/run_info.h"
#include "commands/run/run_input.h"
#include "commands/run/validate.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "engine/engine.h"
#include "engine/profiler.h"
#include "intake/arrivals.h"
#include "intake/form_gate.h"
#include "intake/intake.h"
#include "intake/token_labels.h"
#include "io/file_names.h"
#include "io/interrupt.h"
#include "load/loaded_model.h"
#include "load/run.h"
#include "load/system_memory.h"
#include "output/error_file.h"
#include "output/final_form.h"
#include "output/part_file.h"
#include "output/record.h"
#include "request/input_lines.h"
#include "request/request_parser.h"
#include "stats/lines.h"
#include "stats/report.h"

namespace pagedinfer {
namespace {

// The stamp of a run that begins now. Its random part distinguishes it from runs that begin at the
// same time.
RunStamp stamp_from_now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  std::random_device random;
  return make_run_stamp(std::chrono::duration<double>(since_1970).count(),
                        uint64_t{random()} << 32 | random());
}

// Processor seconds of the calling thread.
double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Whether the file is bundled with the model: its folder has the model's folder.
bool is_bundled_with(const std::string& model, const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return std::filesystem::exists(folder / model / "config.json", ignored);
}

// The error that ended the reading of the input early, or an error if the input was changed after
// it was read; null if there is neither.
std::exception_ptr fault_of_input(const Intake& intake, const InputLines& lines,
                                  const Config& config, const Interrupt& interrupt) {
  try {
    intake.rethrow_failure();
    if (interrupt.happened() || !lines.has_changed()) return nullptr;
    InputAgain input(config, interrupt);
    verify_input(input.name(), intake.mark(), [&] { return input.next(); });
  } catch (const Error&) {
    return std::current_exception();
  } catch (const Interrupted&) {
  }
  return nullptr;
}

// One run, from the input file to the output file.
class Job {
 public:
  Job(const Config& config, Interrupt& interrupt, const JobWatcher& watcher = {})
      : config_(config),
        interrupt_(interrupt),
        watcher_(watcher),
        lines_(config.input, choice_of(config), interrupt.fd()),
        console_(config, paths_.output, watcher_.tells) {}

  // REQUIRES: one of the two is called, once.
  JobResult run(const Decorate& decorate) {
    owns_model_ = true;
    ModelPlan plan = plan_model({config_}, clock_);
    check_first_lines(config_, plan, interrupt_);
    if (has_ended(plan)) return {.exit_code = exit_code_of({})};
    own_model_.emplace(load_model(std::move(plan)));
    decorate(*own_model_);
    return run(*own_model_, own_model_->plan.runs.front());
  }
  JobResult run(LoadedModel& model, const RunPlan& plan) {
    open(model, plan);
    compute();
    return report();
  }

 private:
  bool has_ended(const ModelPlan& model);
  void open(LoadedModel& model, const RunPlan& plan);
  void open_intake();
  void compute();
  void make_output();
  JobResult report();
  int exit_code_of(const Summary& summary) const;

  // The ports of the engine.
  void before_wait();
  void wait_for_arrival(double seconds);
  void done(const Completion& completion, const RequestStats& stats);
  void stepped(const StepStats& stats, const Engine& engine);
  void leaked(int num_blocks);

  RunConsole::Counted counted_for_progress() const;
  void hint_at_resume(std::string_view what_happened);
  std::string note_keys();
  Summary summarize() const;
  std::optional<Profile> profile() const {
    return profiler_ ? std::optional(profiler_->profile()) : std::nullopt;
  }

  const Config& config_;
  Interrupt& interrupt_;
  const JobWatcher watcher_;
  const std::function<double()> clock_ = clock_from_now();
  RunStamp stamp_ = stamp_from_now();
  const Paths paths_ = resolve_paths(config_);
  InputLines lines_;
  RunConsole console_;

  // Set by open(), in this order.
  bool owns_model_ = false;  // no caller does
  std::optional<LoadedModel> own_model_ = {};
  LoadedModel* model_ = nullptr;
  const RunPlan* plan_ = nullptr;
  std::optional<Run> run_ = {};
  double loaded_ = 0;      // when the model was loaded, on clock_
  FinalCount ended_ = {};  // the records, if has_ended(); then the members below are not set
  std::optional<Outlets> outlets_ = {};
  std::optional<Intake> intake_ = {};
  std::optional<FormStore> forms_ = {};  // unless no answer is kept in a form
  std::optional<Profiler> profiler_ = {};
  RunInfo info_ = {};

  const TokenLabels token_label_ = [this](TokenId token) {
    return token_label(model_->plan.tokenizer.get(), token);
  };

  // Set by compute().
  bool complete_ = false;
  bool leaks_ = false;             // blocks of the cache
  std::exception_ptr fault_ = {};  // of the input
};

// Whether an earlier run has made a table, which cannot be gone on with, and this one has nothing
// to add to it. Throws Error if it has, or is another run.
bool Job::has_ended(const ModelPlan& model) {
  if (!config_.resume || !is_only_made(paths_) || !is_table_name(paths_.made)) return false;
  const std::string state = run_of(paths_.output);
  const auto refuse = [&](std::string_view why) {
    throw Error(
        fmt::format("{}: {}, and {} is gone, with which a run goes on; --keep-jsonl keeps "
                    "it, --overwrite begins again",
                    paths_.made, why, paths_.output));
  };
  const auto header = name_exists(state) ? read_part_header(state) : std::nullopt;
  if (!header) refuse(state + " is missing");
  require_same(state, header->fingerprint, fingerprint_of(config_, model, model.runs.front()),
               false);
  InputAgain input(config_, interrupt_);
  verify_input(input.name(), header->mark.input, [&] { return input.next(); });
  if (input.next()) refuse("the input has more lines now");
  ended_ = count_records(paths_.made);
  if (config_.retry_errors && ended_.failed > 0) refuse("it has error records to try again");
  console_.name_model(model.name);
  console_.nothing_new(ended_.records);
  complete_ = true;
  return true;
}

void Job::open(LoadedModel& model, const RunPlan& plan) {
  model_ = &model;
  plan_ = &plan;
  run_.emplace(model, plan);
  console_.name_model(model.plan.name);
  if (!model.plan.backend_note.empty()) console_.note(model.plan.backend_note);
  if (model.plan.backend->info.warms_up) run_->warm_up();
  interrupt_.throw_if_happened();
  loaded_ = clock_();
  if (!config_.errors.empty()) check_error_file(config_.errors);
  // The outputs are opened last, so that a run that fails earlier changes no file.
  outlets_.emplace(config_, paths_, fingerprint_of(config_, model.plan, plan), clock_,
                   std::move(stamp_), interrupt_, !owns_model_);
  lines_.recognize();  // after the outputs are open: the writer of a pipe may wait for them
  open_intake();
  if (model_->plan.peaks) {
    profiler_.emplace(model_->steps(), model_->arithmetic(), model_->plan.ops->timing(),
                      *model_->plan.peaks, clock_);
  }
  info_ = describe_run(config_, model.plan, plan);
  console_.begin(loaded_, outlets_->records().num_done());
  if (owns_model_ && config_.model == Config{}.model &&
      !is_bundled_with(config_.model, config_.input)) {
    console_.note(fmt::format(
        "the bundled model {} is used, which tells small stories; --model names another",
        config_.model));
  }
  for (const std::string& note : info_.notes) console_.note(note);
}

void Job::open_intake() {
  const SchedulerLimits& limits = plan_->limits;
  const RecordOutput& records = outlets_->records();
  intake_.emplace(
      IntakeParts{.lines = lines_,
                  .tokenizer = model_->plan.tokenizer.get(),
                  .chat = model_->plan.chat,
                  .defaults = model_->plan.defaults,
                  .rules = line_rules(config_),
                  .clock = clock_,
                  .thread_clock = thread_seconds,
                  .end_lines = [this] { interrupt_.raise(); },
                  .is_done = [&records](int64_t index) { return records.is_done(index); },
                  .num_done = records.num_done()},
      IntakeLimits{.prompt = model_->plan.prompt_limits(limits.max_model_len),
                   .max_items = int64_t{limits.max_waiting} + kReadAhead,
                   .num_workers = num_tokenizers(model_->plan.options.num_threads)});
  if (model_->plan.forms) {
    forms_.emplace(*model_->plan.forms, model_->plan.form_shares(),
                   model_->plan.options.num_threads);
  }
}

void Job::compute() {
  EngineParts parts = run_->parts(clock_);
  parts.num_traced = watcher_.num_candidates;
  ArrivalGate arrivals(
      {.pull = [this](bool wait, IntakeItem& item) { return intake_->pull(wait, item); },
       .clock = clock_,
       .sleep = [this](double seconds) { wait_for_arrival(seconds); },
       .before_wait = [this] { before_wait(); },
       .skips_to_first = outlets_->records().num_done() > 0});
  FormGate gate({.pull = [&](Wait wait, IntakeItem& item) { return arrivals.next(wait, item); },
                 .forms = forms_ ? &*forms_ : nullptr,
                 .before_wait = [this] { before_wait(); }});
  Engine engine(profiler_ ? profiler_->in_front_of(parts) : parts, plan_->limits);
  try {
    engine.run({.next = [&](Wait wait, EngineLine& line) { return gate.next(wait, line); },
                .done = [this](const Completion& completion,
                               const RequestStats& stats) { done(completion, stats); },
                .stepped = [&](const StepStats& stats) { stepped(stats, engine); },
                .leaked = [this](int num_blocks) { leaked(num_blocks); },
                .interrupted = [this] { return interrupt_.happened(); }});
    fault_ = fault_of_input(*intake_, lines_, config_, interrupt_);
    complete_ = !interrupt_.happened();
    outlets_->close_records(complete_ && !fault_, intake_->mark());
    if (complete_ && !fault_ && !config_.errors.empty()) {
      write_error_file(paths_.output, config_.errors);
    }
    if (complete_ && !fault_) make_output();
  } catch (...) {
    console_.clear_progress();
    note_keys();
    outlets_->rescue(intake_->mark(), info_, summarize(), profile());
    hint_at_resume("failed");
    throw;
  }
}

// Makes the output of the JSON lines, if that has another form. An interrupt leaves the lines.
void Job::make_output() {
  if (paths_.made.empty()) return;
  try {
    write_final_form(paths_.made, [this] { interrupt_.throw_if_happened(); });
    if (!config_.keep_jsonl) remove_records(paths_.made);
  } catch (const Interrupted&) {
    complete_ = false;
  }
}

// Writes out finished records before the run waits.
void Job::before_wait() {
  outlets_->flush_all(intake_->mark());
  if (profiler_) profiler_->idle();
}

// Waits in short steps, so that the progress line counts the seconds down.
void Job::wait_for_arrival(double seconds) {
  constexpr double kBeat = 1;  // seconds
  const double arrival = clock_() + seconds;
  for (double now = clock_(); now < arrival && !interrupt_.happened(); now = clock_()) {
    if (console_.is_due(now)) console_.show_wait(now, arrival - now, counted_for_progress());
    interrupt_.sleep(std::min(arrival - now, kBeat));
  }
}

void Job::done(const Completion& completion, const RequestStats& stats) {
  model_->check_files();  // before writing: no record may come from a file that has changed
  outlets_->answer(completion, stats,
                   {.token_ids = config_.token_ids || model_->plan.tokenizer == nullptr,
                    .timing = config_.record_timing,
                    .model_name = model_->plan.name,
                    .token_label = token_label_});
  watcher_.answered(completion);
  if (stats.failed()) console_.error(completion);
  console_.count_answer(stats);
}

void Job::stepped(const StepStats& stats, const Engine& engine) {
  outlets_->step(stats, intake_->mark());
  console_.count_step(stats);
  console_.hints(*intake_);
  if (console_.is_due(stats.end)) {
    console_.show_step(stats, engine.drawn_so_far(), counted_for_progress());
  }
}

void Job::leaked(int num_blocks) {
  leaks_ = true;
  console_.leak(num_blocks);
}

RunConsole::Counted Job::counted_for_progress() const {
  return {.lines = intake_->num_lines(), .out_of_order = outlets_->records().num_waiting()};
}

// Adds the notes about unknown keys to the summary, and returns the note about all keys together.
std::string Job::note_keys() {
  for (const LineHint& hint : intake_->hints()) info_.notes.push_back(note_of(hint));
  const std::string all = note_of(intake_->unknown_keys(), config_.strict);
  if (!all.empty()) info_.notes.push_back(all);
  return all;
}

Summary Job::summarize() const {
  Summary summary = outlets_->report().summary({.load = loaded_,
                                                .tokenize = intake_->tokenize_seconds(),
                                                .output = outlets_->seconds(),
                                                .total = clock_()});
  summary.resumed = outlets_->records().num_done();
  summary.kv_bytes_per_position = plan_->memory.kv_bytes_per_token;
  return summary;
}

JobResult Job::report() {
  console_.clear_progress();
  console_.hints(*intake_);
  const std::string about_keys = note_keys();
  if (complete_ && !about_keys.empty()) console_.note(about_keys);
  const Summary summary = summarize();
  outlets_->close_stats(info_, summary, profile());
  console_.result(summary, profile(), complete_);
  if (!complete_) hint_at_resume("interrupted");
  if (complete_ && intake_->failed()) hint_at_resume("failed");
  if (fault_) std::rethrow_exception(fault_);
  return {.exit_code = exit_code_of(summary), .info = std::move(info_), .summary = summary};
}

// Also prints how the lines ended, even with --quiet.
int Job::exit_code_of(const Summary& summary) const {
  if (!complete_) return exit_code::kInterrupted;
  const FinalCount earlier =
      outlets_ ? FinalCount{outlets_->records().num_done(), outlets_->records().num_failed()}
               : ended_;
  const int64_t num_failed = summary.failed + earlier.failed;
  if (owns_model_) {
    const int64_t num_completed = summary.completed + earlier.records - earlier.failed;
    console_.count_of_lines(num_completed, num_failed);
  }
  if (leaks_) return exit_code::kFailed;
  const bool is_done = num_failed == 0 || config_.exit_zero_on_error_records;
  return is_done ? exit_code::kDone : exit_code::kSomeWrong;
}

// Only `run` prints the hint; `verify` and `bench` own their outputs.
void Job::hint_at_resume(std::string_view what_happened) {
  if (owns_model_ && outlets_->records().can_be_resumed()) console_.resume_hint(what_happened);
}

}  // namespace

int run_job(const Config& config, const Decorate& decorate) {
  limit_heaps();
  validate(config);
  Interrupt interrupt;
  try {
    const Config decided = with_packing_decided(config);
    return Job(decided, interrupt).run(decorate).exit_code;
  } catch (const Interrupted&) {
    if (!config.quiet) {
      fmt::print(stderr, "interrupted before the first step: nothing has changed\n");
    }
    return exit_code::kInterrupted;
  }
}

JobResult run_over(const Config& config, LoadedModel& model, const RunPlan& plan,
                   Interrupt& interrupt, const JobWatcher& watcher) {
  interrupt.lower();
  return Job(config, interrupt, watcher).run(model, plan);
}

}  // namespace pagedinfer
