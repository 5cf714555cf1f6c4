#include "jobs/plan_job.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/error.h"
#include "core/exit_codes.h"
#include "engine/intake.h"
#include "engine/loaded_model.h"
#include "engine/run.h"
#include "engine/system_memory.h"
#include "io/interrupt.h"
#include "jobs/input_survey.h"
#include "jobs/output_costs.h"
#include "jobs/packing_choice.h"
#include "jobs/plan_advice.h"
#include "jobs/plan_report.h"
#include "jobs/rehearsal.h"
#include "jobs/run_clock.h"
#include "jobs/run_input.h"
#include "jobs/step_costs.h"
#include "jobs/step_probe.h"
#include "jobs/validate.h"
#include "request/input_lines.h"
#include "sched/scheduler.h"

namespace pagedinfer {
namespace {

double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Costs that make all steps equal.
StepCosts equal_steps() { return {{{1, 1.0}}, {{1, 1.0}}, 0, 0}; }

// The survey of an input, and the CPU seconds that reading and tokenizing it took.
struct Survey {
  InputSurvey input;
  double tokenize = 0;
};

Survey survey_input(const PlanConfig& asked, const LoadedModel& model, InputLines& lines,
                    Interrupt& interrupt, const std::function<double()>& clock) {
  const Config& config = asked.config;
  const RunPlan& plan = model.plans.front();
  PromptLimits limits = model.prompt_limits(plan.limits.max_model_len);
  limits.forms = nullptr;  // a plan compiles none
  Survey survey = {.input =
                       InputSurvey(plan.limits.max_model_len, RequestSample(plan.memory.block_size),
                                   asked.expected_tokens)};
  const std::unique_ptr<KvPool> pool = make_pool(plan);
  const Scheduler scheduler(*pool, plan.limits);
  Intake intake({.lines = lines,
                 .tokenizer = model.tokenizer.get(),
                 .chat = model.chat,
                 .defaults = model.defaults,
                 .prompt_field = config.prompt_field,
                 .strict = config.strict,
                 .clock = clock,
                 .thread_clock = thread_seconds,
                 .end_lines = [&] { interrupt.raise(); }},
                {.prompt = limits,
                 .max_items = int64_t{plan.limits.max_waiting} + kReadAhead,
                 .num_workers = num_tokenizers(model.options.num_threads)});
  for (IntakeItem item; intake.pull(true, item) == Pull::kItem;) {
    survey.input.add(item, [&](const Request& request) {
      return scheduler.refusal(std::ssize(request.prompt), request.sampling.max_tokens,
                               request.sampling.beams.width);
    });
  }
  interrupt.throw_if_happened();
  intake.rethrow_failure();
  survey.tokenize = intake.tokenize_seconds();
  return survey;
}

class PlanJob {
 public:
  PlanJob(const PlanConfig& config, Interrupt& interrupt)
      : asked_(config),
        config_(with_packing_decided(config.config)),
        interrupt_(interrupt),
        lines_(config_.input, choice_of(config_), interrupt.fd()),
        model_(plan_model({config_}, clock_)),
        keys_(model_.opened.spec) {}

  void run();

 private:
  const RunPlan& plan() const { return model_.plans.front(); }
  void play();
  ProbedRun probed_run() const;
  void measure();
  int64_t int8_bytes_per_token() const;
  PlanReport report() const;

  const PlanConfig& asked_;
  const Config config_;
  Interrupt& interrupt_;
  const std::function<double()> clock_ = clock_from_now();
  InputLines lines_;
  LoadedModel model_;
  const double opened_ = clock_();  // when the model was
  const AttendedKeys keys_;
  std::optional<Survey> survey_ = {};
  Rehearsal rehearsal_ = {};
  double scheduled_ = 0;        // seconds that it took
  RunningCounts running_ = {};  // all steps are equal until they are measured
  std::optional<PlannedDuration> duration_ = {};
};

void PlanJob::play() {
  const double begin = clock_();
  rehearsal_ = rehearse(
      survey_->input.sample().requests(),
      {.plan = plan(), .keys = keys_, .max_new = asked_.expected_tokens, .before_step = [this] {
         interrupt_.throw_if_happened();
       }});
  scheduled_ = clock_() - begin;
  running_ = rehearsal_.steps.time(equal_steps()).running;
}

// The steps of the run are no larger than those of the rehearsal.
ProbedRun PlanJob::probed_run() const {
  const InputSurvey& input = survey_->input;
  const SchedulerLimits& limits = plan().limits;
  const double prompt = input.prompts().mean();
  const double found = static_cast<double>(rehearsal_.num_found) /
                       static_cast<double>(std::max<int64_t>(rehearsal_.num_requests, 1));
  const double completion = std::min<double>(input.completions().mean(),
                                             asked_.expected_tokens.value_or(limits.max_model_len));
  const int max_prompt =
      limits.chunked_prefill ? limits.prefill_chunk_size : limits.max_model_len - 1;
  const int64_t max_tokens = std::min<int64_t>(limits.max_step_tokens, input.prompt_tokens());
  return {.max_decodes = std::max(1, running_.max()),
          .max_sequences = static_cast<int>(plan().bounds.sequences),
          .max_tokens = static_cast<int>(std::max<int64_t>(1, max_tokens)),
          .prompt = std::clamp(static_cast<int>(std::lround(prompt - found)), 1, max_prompt),
          .found = static_cast<int>(found),
          .context = static_cast<int>(std::lround(prompt + completion / 2)),
          .max_model_len = limits.max_model_len};
}

// Loading is timed as a part of the run.
void PlanJob::measure() {
  const InputSurvey& input = survey_->input;
  const double begin = clock_();
  load_weights(model_);
  const double load = clock_() - begin;
  interrupt_.throw_if_happened();
  const ProbedRun probed = probed_run();
  StepProbe probe(model_, plan(), input.sampling(), probed.found, clock_);
  const StepCosts costs = calibrate(probed, keys_, [&](const ProbedStep& step) {
    interrupt_.throw_if_happened();
    return probe(step);
  });
  const OutputCosts output =
      measure_output({.tokenizer = model_.tokenizer.get(),
                      .vocab = model_.opened.spec.vocab,
                      .sampling = input.sampling(),
                      .record = {.token_ids = config_.token_ids || model_.tokenizer == nullptr,
                                 .model_name = model_.name}},
                     clock_);
  const StepTally::Time rehearsed = rehearsal_.steps.time(costs);
  const double steps =
      scaled_seconds(rehearsal_, costs, input.prompt_tokens(), input.expected_new_tokens());
  const double scale = rehearsed.seconds > 0 ? steps / rehearsed.seconds : 1;
  running_ = rehearsed.running;
  duration_ = {.load = opened_ + load,
               .steps = steps,
               .tokenize = survey_->tokenize / model_.options.num_threads,
               .schedule = scheduled_ * scale,
               .output = output.seconds(input.num_sequences(), input.expected_new_tokens()),
               .expected_tokens = asked_.expected_tokens};
}

int64_t PlanJob::int8_bytes_per_token() const {
  if (std::ranges::count(model_.backend->info.cache_types, DType::kI8) == 0) return 0;
  const ModelSpec& spec = model_.opened.spec;
  return model_.ops->kv_bytes_per_position(DType::kI8, spec.kv_heads, spec.head_dim) *
         std::ssize(spec.layers);
}

PlanReport PlanJob::report() const {
  PlanReport report = {.input = config_.input,
                       .model = model_.name,
                       .device = model_.ops->description(),
                       .dtype = model_.options.compute,
                       .quantize = model_.quantize,
                       .plan = plan(),
                       .max_positions = model_.opened.spec.max_positions,
                       .file_bytes = model_.weight_bytes().mapped,
                       .is_dummy = model_.opened.is_dummy,
                       .step = step_bytes(model_.planned(), plan().bounds),
                       .int8_bytes_per_token = int8_bytes_per_token(),
                       .survey = survey_->input,
                       .rehearsal = rehearsal_,
                       .running = running_,
                       .duration = duration_};
  report.advice = advice_for(report);
  return report;
}

void PlanJob::run() {
  lines_.recognize();
  survey_.emplace(survey_input(asked_, model_, lines_, interrupt_, clock_));
  play();
  if (asked_.estimates_duration && survey_->input.num_requests() > 0) measure();
  const std::string text = asked_.json ? plan_json(report()) : plan_table(report());
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("standard output cannot be written");
  }
}

}  // namespace

int run_plan_job(const PlanConfig& config) {
  limit_heaps();
  validate(config.config);
  Interrupt interrupt;
  try {
    PlanJob(config, interrupt).run();
    return exit_code::kDone;
  } catch (const Interrupted&) {
    return exit_code::kInterrupted;
  }
}

}  // namespace pagedinfer
