// Runs an engine on a rig over lines that arrive at given steps, and notes all that comes out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/rig.h"

namespace pagedinfer {

struct Line {
  int step;         // of the engine, at which it is there
  IntakeItem item;  // head.read 0: is read when it is asked for
};

// A workload as lines, with stop strings, stop ids and minimum lengths given to some requests, and
// lines between them that are errors already. head.index numbers the lines.
std::vector<Line> make_lines(const Workload& work, Random& random);

struct EngineRun {
  std::map<int64_t, Completion> answers;  // by head.index
  std::map<int64_t, RequestStats> requests;
  std::vector<StepStats> steps;
  std::vector<int> num_answered;  // before the end of each of `steps`
  LogitRows logit_rows;
  std::string thrown = "";  // what ended it early
};

struct Interference {
  std::function<bool()> interrupted = [] { return false; };  // as in EnginePorts
  std::function<void()> before_answer = [] {};               // may throw
};

// Runs to the end, and checks on the way that every line is answered once at most, an error at
// once, that no more lines are read than fit the window, and none waited for with a step on its
// way, that no more steps are on their way than may be, and that the pool is empty afterwards.
EngineRun run_engine(Rig& rig, KvPool& pool, const SchedulerLimits& limits,
                     const std::vector<Line>& lines, Overlap overlap,
                     const Interference& interference = {});

// What a run must give, made without an engine: the answers, and the logits behind them. A
// request that can never run with so many positions is an error.
EngineRun expected_run(Rig& rig, const SchedulerLimits& limits, int64_t positions_total,
                       const std::vector<Line>& lines);

// The same line and tokens and text and end.
bool same_answer(const Completion& a, const Completion& b);

// Fails the running test case unless `run` answered every line as expected, from the same logits.
void check_answers(const EngineRun& run, const EngineRun& expected);

// Fails the running test case if the statistics contradict the answers or each other. REQUIRES: the
// run came to its end, and no step failed.
void check_records(const EngineRun& run, Overlap overlap);

int num_surplus(const EngineRun& run);

}  // namespace pagedinfer
