#include "commands/plan/plan_job.h"

#include <algorithm>
#include <cstdio>

#include "commands/plan/input_survey.h"
#include "commands/plan/plan_report.h"
#include "commands/plan/rehearsal.h"
#include "commands/run/job.h"
#include "commands/run/run_input.h"
#include "commands/run/validate.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "intake/intake.h"
#include "io/interrupt.h"
#include "load/model_plan.h"
#include "load/run.h"
#include "load/system_memory.h"
#include "request/input_lines.h"
#include "sched/scheduler.h"

namespace pagedinfer {
namespace {

constexpr FlagOf<PlanConfig> kPlanFlags[] = {
    flag_row(Group::kPlan, "expected_tokens", field_of<&PlanConfig::expected_tokens>(),
             "Tokens of a completion, for the number of sequences that run at once. Without it "
             "every completion has its maximum length.",
             "For completions that end before their maximum.",
             {.range = IntegerRange{1, kMaxCount}}),
    flag_row(Group::kPlan, "json", field_of<&PlanConfig::json>(),
             "Print one JSON object instead of the table.", "For scripts."),
};

InputSurvey survey_input(const Config& config, const ModelPlan& model, InputLines& lines,
                         Interrupt& interrupt) {
  const RunPlan& plan = model.runs.front();
  InputSurvey survey(plan.limits.max_model_len, RequestSample(plan.memory.block_size));
  const std::unique_ptr<KvPool> pool = make_pool(plan);
  const Scheduler scheduler(*pool, plan.limits);
  const auto no_clock = [] { return 0.0; };
  Intake intake({.lines = lines,
                 .tokenizer = model.tokenizer.get(),
                 .chat = model.chat,
                 .defaults = model.defaults,
                 .rules = line_rules(config),
                 .clock = no_clock,
                 .thread_clock = no_clock,
                 .end_lines = [&] { interrupt.raise(); }},
                {.prompt = model.prompt_limits(plan.limits.max_model_len),
                 .max_items = int64_t{plan.limits.max_waiting} + kReadAhead,
                 .num_workers = num_tokenizers(model.options.num_threads)});
  for (IntakeItem item; intake.pull(true, item) == Pull::kItem;) {
    survey.add(item, scheduler);
  }
  interrupt.throw_if_happened();
  intake.rethrow_failure();
  return survey;
}

class PlanJob {
 public:
  PlanJob(const PlanConfig& config, Interrupt& interrupt)
      : asked_(config),
        config_(with_packing_decided(config.config)),
        interrupt_(interrupt),
        lines_(config_.input, choice_of(config_), interrupt.fd()),
        model_(plan_model({config_}, clock_from_now())) {}

  void run();

 private:
  const RunPlan& plan() const { return model_.runs.front(); }
  int64_t int8_bytes_per_token() const;
  PlanReport report(const InputSurvey& survey, const Rehearsal& rehearsal) const;

  const PlanConfig& asked_;
  const Config config_;
  Interrupt& interrupt_;
  InputLines lines_;
  ModelPlan model_;
};

int64_t PlanJob::int8_bytes_per_token() const {
  if (std::ranges::count(model_.backend->info.cache_types, DType::kI8) == 0) return 0;
  const ModelSpec& spec = model_.opened.spec;
  return model_.ops->memory().kv_bytes_per_position(DType::kI8, spec.kv_heads, spec.head_dim) *
         std::ssize(spec.layers);
}

PlanReport PlanJob::report(const InputSurvey& survey, const Rehearsal& rehearsal) const {
  PlanReport report = {.input = config_.input,
                       .model = model_.name,
                       .device = model_.ops->description(),
                       .dtype = model_.options.compute,
                       .quantize = model_.quantize,
                       .has_codes = model_.opened.quantized.has_codes(),
                       .num_merged = num_merged(model_.opened),
                       .parameters = parameters_of(model_.opened),
                       .plan = plan(),
                       .max_positions = model_.opened.spec.max_positions,
                       .file_bytes = model_.weight_bytes().mapped,
                       .is_dummy = model_.opened.is_dummy,
                       .step = step_bytes(model_.planned(), plan().bounds),
                       .int8_bytes_per_token = int8_bytes_per_token(),
                       .survey = survey,
                       .rehearsal = rehearsal};
  report.advice = advice_for(report);
  return report;
}

void PlanJob::run() {
  lines_.recognize();
  const InputSurvey survey = survey_input(config_, model_, lines_, interrupt_);
  const Rehearsal rehearsal =
      rehearse(survey.sample().requests(),
               {.plan = plan(), .max_new = asked_.expected_tokens, .before_step = [this] {
                  interrupt_.throw_if_happened();
                }});
  const PlanReport result = report(survey, rehearsal);
  const std::string text = asked_.json ? plan_json(result) : plan_table(result);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("standard output cannot be written");
  }
}

}  // namespace

std::span<const FlagOf<PlanConfig>> plan_flags() { return kPlanFlags; }

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
