// Runs an engine on a Rig over lines that arrive at given steps, and collects its results.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "tests/support/random_form.h"
#include "tests/support/rig.h"

namespace pagedinfer {

struct Line {
  int step;              // step of the engine at which the line arrives
  IntakeItem item;       // head.arrived = 0: it is read when the engine pulls it
  RandomForm form = {};  // that its answers must have
};

enum class Forms : uint8_t { kNo, kSome };

// The requests of a workload as lines. Some get stop strings, stop ids, minimum lengths, log
// probabilities and further prompts, and if asked for a form, and some lines between them are
// errors. head.index numbers the lines.
std::vector<Line> make_lines(const Workload& work, WorkloadRandom& random,
                             Forms forms = Forms::kNo);

// The text of a token in these runs.
std::string_view letters_of(TokenId token);

struct EngineRun {
  std::map<int64_t, Completion> answers;  // by head.index
  std::map<int64_t, RequestStats> requests;
  std::vector<StepStats> steps;
  std::vector<int> num_answered;  // answers before the end of each of `steps`
  LogitRows logit_rows;
  std::string thrown = "";  // what ended it early
};

struct Interference {
  std::function<bool()> interrupted = [] { return false; };  // as in EnginePorts
  std::function<void()> before_answer = [] {};               // may throw
};

// Runs to the end. Checks that every line is answered at most once, and an error at once; that no
// more lines are read than fit the window; that the engine waits for lines only without a step in
// flight; that no more steps are in flight than `overlap` permits; and that the pool is empty at
// the end.
EngineRun run_engine(Rig& rig, KvPool& pool, const SchedulerLimits& limits,
                     const std::vector<Line>& lines, Overlap overlap,
                     const Interference& interference = {});

// The expected answers and logits of a run, computed without an engine. A request that does not fit
// into positions_total is an error.
EngineRun expected_run(Rig& rig, const SchedulerLimits& limits, int64_t positions_total,
                       const std::vector<Line>& lines);

// Whether the lines, tokens, texts, finish reasons, log probabilities and errors are equal.
bool same_answer(const Completion& a, const Completion& b);

// Fails the running test case unless `run` answered every line as expected, from the same logits.
void check_answers(const EngineRun& run, const EngineRun& expected);

// Fails the running test case if the statistics contradict the answers or each other. REQUIRES: the
// run came to its end, no step failed, and no answer could not have its form.
void check_records(const EngineRun& run, Overlap overlap);

int num_surplus(const EngineRun& run);

}  // namespace pagedinfer
