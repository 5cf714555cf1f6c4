// What `plan` prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "commands/plan/input_survey.h"
#include "commands/plan/rehearsal.h"
#include "load/run_plan.h"
#include "model/parameters.h"

namespace pagedinfer {

// A setting that is far from the best one for the input.
struct Advice {
  std::string flag, text;
};

struct PlanReport {
  std::string input = {}, model = {}, device = {};
  DType dtype = DType::kBF16;
  Quantization quantize = Quantization::kNone;
  bool has_codes = false;  // the checkpoint has codes of 4 bits
  int64_t num_merged = 0;  // matrices that the adapter changes, of a quantized checkpoint
  Parameters parameters = {};
  const RunPlan& plan;
  int max_positions = 0;   // of the model
  int64_t file_bytes = 0;  // of the weights that are mapped from files or made up in memory
  bool is_dummy = false;
  StepBytes step = {};
  int64_t int8_bytes_per_token = 0;  // of a cache in int8; 0: the device has none
  const InputSurvey& survey;
  const Rehearsal& rehearsal;
  std::vector<Advice> advice = {};

  int64_t num_positions() const { return plan.memory.num_positions(); }
  int64_t total_bytes() const;
  // total_bytes() without cache positions that no token of the input needs. Memory for forms is
  // left out too if no line asks for one.
  int64_t touched_bytes() const;
  int64_t num_touched() const;  // positions of the cache, at most
  // Memory for the largest line's answers, and for the log probabilities of the cache's tokens.
  int64_t answer_bytes() const;
  // Memory for the kept keys of lines that wait or run, if all were like the largest.
  int64_t kept_bytes() const;
  // How many sequences would fit if each reserved max_model_len positions.
  int64_t num_reservations() const { return num_positions() / plan.limits.max_model_len; }
  // Prompt tokens that need not be computed. Scaled up if not all requests were rehearsed.
  int64_t num_cached() const;
  bool is_whole() const { return survey.sample().is_whole() && rehearsed_all(); }
  bool rehearsed_all() const {
    return rehearsal.num_requests == static_cast<int64_t>(survey.sample().requests().size());
  }
};

// "1.95 MiB"
std::string human_bytes(int64_t bytes);

// Lines of at most 100 columns, each with a newline.
std::string plan_table(const PlanReport& report);

// One JSON object on a line.
std::string plan_json(const PlanReport& report);

// The flags whose values are far from the best for this input, each with the reason and a better
// value. REQUIRES: the report is complete except for its advice.
std::vector<Advice> advice_for(const PlanReport& report);

}  // namespace pagedinfer
