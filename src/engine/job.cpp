#include "engine/job.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "engine/engine.h"
#include "engine/intake.h"
#include "engine/interrupt.h"
#include "engine/outlets.h"
#include "engine/output_paths.h"
#include "engine/profiler.h"
#include "engine/run_info.h"
#include "engine/run_input.h"
#include "engine/setup.h"
#include "engine/system_memory.h"
#include "engine/validate.h"
#include "output/record.h"
#include "request/input_lines.h"
#include "request/request_parser.h"
#include "stats/progress.h"
#include "stats/report.h"
#include "stats/run_stamp.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

enum ExitCode { kAllCompleted = 0, kSomeFailed = 2 };

constexpr int kReadAhead = 256;  // lines beyond the scheduler's own window

std::function<double()> clock_from_now() {
  using Clock = std::chrono::steady_clock;
  return [begin = Clock::now()] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
}

// A run that begins now: seconds since 1970, and what no other run draws.
RunStamp stamp_from_now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  std::random_device random;
  return make_run_stamp(std::chrono::duration<double>(since_1970).count(),
                        uint64_t{random()} << 32 | random());
}

// What the thread that asks has computed.
double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void print_note(const std::string& note) { print(fmt::format("note: {}\n", note)); }

// Of standard error; 0 where it has none.
size_t columns_of_terminal() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string text_of(const LineHint& hint) {
  std::string key;
  append_json_string(key, hint.hint.key);
  return fmt::format("line {}: {}: did you mean {}?", hint.line, key, hint.hint.similar);
}

// What is said of all the keys that nobody knows; "" if there is none.
std::string text_of(const RequestParser::UnknownKeys& keys, bool strict) {
  std::string list;
  for (const auto& [key, count] : keys) {
    list += list.empty() ? "" : ", ";
    append_json_string(list, key);  // whatever it holds, a terminal can show it
    list += fmt::format(" ({})", count);
  }
  if (list.empty()) return "";
  return fmt::format("{} unknown keys: {}", strict ? "refused" : "ignored", list);
}

// What has kept a run from reading its input to the end or, of an input that somebody has
// written to meanwhile, from believing what it has read.
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

int run(const Config& config, const Load& load, Interrupt& interrupt) {
  const std::function<double()> clock = clock_from_now();
  RunStamp stamp = stamp_from_now();
  const Paths paths = resolve_paths(config);
  InputLines lines(config.input, choice_of(config), interrupt.fd());
  Setup setup = load(config, clock);
  interrupt.throw_if_happened();
  if (!config.quiet && !setup.backend_note.empty()) print_note(setup.backend_note);
  const double loaded = clock();
  // Only now: nothing is made or replaced in vain.
  Outlets outlets(config, paths, setup, clock, std::move(stamp), interrupt);

  lines.recognize();  // a pipe may have to be opened by whoever waits for the output

  Intake intake({.lines = lines,
                 .tokenizer = setup.tokenizer.get(),
                 .chat = setup.chat,
                 .defaults = setup.defaults,
                 .prompt_field = config.prompt_field,
                 .strict = config.strict,
                 .clock = clock,
                 .thread_clock = thread_seconds,
                 .end_lines = [&] { interrupt.raise(); },
                 .is_done = [&](int64_t index) { return outlets.records().is_done(index); },
                 .num_done = outlets.records().num_done()},
                {.prompt = {.vocab = setup.model.spec.vocab,
                            .max_model_len = setup.max_model_len,
                            .spec = &setup.model.spec},
                 .max_items = setup.limits.max_waiting + kReadAhead,
                 .num_workers = num_tokenizers(setup.options.num_threads)});
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const bool shows_progress = !config.quiet && config.progress != Config::Progress::kOff;
  Progress progress(terminal && config.progress != Config::Progress::kOn, print,
                    columns_of_terminal);
  ProgressState state;

  const RecordOptions options = {.token_ids = config.token_ids || setup.tokenizer == nullptr,
                                 .timing = config.record_timing,
                                 .model_name = setup.model_name};
  StepProtocol& steps = setup.steps ? *setup.steps : *setup.ops;
  Arithmetic& arithmetic = setup.arithmetic ? *setup.arithmetic : *setup.ops;
  std::optional<Profiler> profiler;
  if (setup.peaks) profiler.emplace(steps, arithmetic, *setup.ops, *setup.peaks, clock);
  const auto profile = [&] { return profiler ? std::optional(profiler->profile()) : std::nullopt; };
  Engine engine({.spec = setup.model.spec,
                 .weights = setup.weights,
                 .cache = setup.cache,
                 .pool = *setup.pool,
                 .steps = profiler ? profiler->ops() : steps,
                 .arithmetic = profiler ? profiler->ops().arithmetic() : arithmetic,
                 .tokenizer = setup.tokenizer.get(),
                 .clock = clock,
                 .overlaps = setup.backend->info.overlaps},
                setup.limits);
  const auto next = [&](bool wait, IntakeItem& item) {
    const Intake::Pull pulled = intake.pull(false, item);
    if (!wait || pulled != Intake::Pull::kLater) return pulled;
    outlets.flush(intake.mark());
    if (profiler) profiler->ops().idle();
    return intake.pull(true, item);
  };
  const auto done = [&](const Completion& completion, const RequestStats& stats) {
    outlets.answer(completion, stats, options);
    ++state.done;
    state.output_tokens += stats.completion_tokens;
  };
  size_t num_hints = 0;  // that were printed
  const auto print_hints = [&] {
    if (config.quiet) return;
    const std::vector<LineHint> hints = intake.hints(num_hints);
    if (!hints.empty()) progress.clear();
    for (const LineHint& hint : hints) print_note(text_of(hint));
    num_hints += hints.size();
  };
  const auto stepped = [&](const StepStats& stats) {
    outlets.step(stats, intake.mark());
    print_hints();
    if (!shows_progress || !progress.due(stats.end)) return;
    state.elapsed = stats.end - loaded;
    if (const std::optional<LineCount> count = intake.num_lines()) {
      state.total = count->count;
      state.total_is_estimate = count->is_estimate;
    }
    state.out_of_order = outlets.records().num_waiting();
    state.running = stats.running;
    state.waiting = stats.waiting;
    state.kv_use =
        static_cast<double>(stats.positions_leased) / static_cast<double>(stats.positions_total);
    progress.show(stats.end, state);
  };
  const auto interrupted = [&] { return interrupt.happened(); };
  RunInfo info = describe_run(config, setup);
  if (!config.quiet) {
    for (const std::string& note : info.notes) print_note(note);
  }
  // Returns what is said of all keys together.
  const auto note_keys = [&] {
    for (const LineHint& hint : intake.hints()) info.notes.push_back(text_of(hint));
    const std::string all = text_of(intake.unknown_keys(), config.strict);
    if (!all.empty()) info.notes.push_back(all);
    return all;
  };
  const auto summarize = [&] {
    Summary summary = outlets.report().summary({.load = loaded,
                                                .tokenize = intake.tokenize_seconds(),
                                                .output = outlets.seconds(),
                                                .total = clock()});
    summary.resumed = outlets.records().num_done();
    return summary;
  };
  const auto print_way_on = [&](std::string_view what_happened) {
    if (!outlets.records().can_be_resumed()) return;
    print(fmt::format("{0}: what is finished is in {1} and {1}.part; --resume goes on\n",
                      what_happened, paths.output));
  };
  bool complete = false;
  std::exception_ptr fault;
  try {
    engine.run({.next = next, .done = done, .stepped = stepped, .interrupted = interrupted});
    fault = fault_of_input(intake, lines, config, interrupt);
    complete = !interrupt.happened();
    outlets.close_records(complete && !fault, intake.mark());
  } catch (...) {
    progress.clear();
    note_keys();
    outlets.rescue(intake.mark(), info, summarize(), profile());
    if (!config.quiet) print_way_on("failed");
    throw;
  }
  progress.clear();
  print_hints();
  const std::string about_keys = note_keys();
  if (!config.quiet && complete && !about_keys.empty()) print_note(about_keys);
  const Summary summary = summarize();
  outlets.close_stats(info, summary, profile());
  const int64_t num_failed = summary.failed + outlets.records().num_failed();
  if (!config.quiet) {
    if (summary.completed + summary.failed > 0) {
      print(summary_table(summary));
      if (profiler) print(profile_table(profiler->profile()));
    } else if (summary.resumed > 0) {
      print(fmt::format("nothing new: {} records were there already\n", summary.resumed));
    } else if (complete) {
      print(fmt::format("{}: no line to answer\n", config.input));
    }
    if (!complete) print_way_on("interrupted");
    if (complete && intake.failed()) print_way_on("failed");
  }
  if (fault) std::rethrow_exception(fault);
  if (!complete) return kInterruptedCode;
  if (num_failed == 0) return kAllCompleted;
  print(fmt::format("lines that ended in an error record: {}\n", num_failed));
  return kSomeFailed;
}

}  // namespace

int run_job(const Config& config, const Load& load) {
  limit_heaps();
  validate(config);
  Interrupt interrupt;
  try {
    return run(config, load, interrupt);
  } catch (const Interrupted&) {
    if (!config.quiet) print("interrupted before the first step: nothing has changed\n");
    return kInterruptedCode;
  }
}

}  // namespace pagedinfer
