// Every number that a run tells about itself, as the row of a table: from the rows come the lines
// of JSON, the closing table, the table of `bench --compare` and those of docs/statistics.md. To
// add a number, count it and add its row.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "stats/profile.h"
#include "stats/report.h"
#include "stats/run_stats.h"

namespace pagedinfer {

// How the number is rounded in JSON and written for people.
enum class Unit : uint8_t {
  kCount,
  kBytes,
  kSeconds,       // to a microsecond
  kMilliseconds,  // to a microsecond; the number itself is in seconds
  kPerSecond,
  kShare,   // 0 to 1
  kNumber,  // a mean or a ratio
  kAmount,  // five digits
  kText,
  kJson,  // a text that is JSON
};

using Counts = std::map<ErrorCode, int64_t>;
// None: it was not measured, which is null in JSON.
using Measure = std::variant<std::monostate, bool, int64_t, double, std::string, Spread, Counts>;

// Where people see a number of the summary.
struct Shown {
  // The row of the closing table, and the words around {}; of a spread the row is its own.
  std::string_view row = "", words = "";
  // Its name in the table of `bench --compare`, which has p50 and p99 of a spread.
  std::string_view compared_as = "";
};

template <class Of>
struct Statistic {
  std::string_view name = "";  // in JSON; of a spread what stands between mean_ and _ms
  Unit unit = Unit::kCount;
  Measure (*get)(const Of& of) = nullptr;
  std::string_view help = "";  // a cell of docs/statistics.md
  Shown shown = {};
};

// A number of a step. The run has its sum and its peak over the steps.
struct StepStatistic : Statistic<StepStats> {
  void (*add)(const StepStats& step, StepStats& sum, StepStats& peak) = nullptr;
};

// In the order in which they are written.
std::span<const Statistic<RequestStats>> request_statistics();
std::span<const StepStatistic> step_statistics();
std::span<const Statistic<Summary>> summary_statistics();
std::span<const Statistic<Profile>> profile_statistics();
std::span<const Statistic<OpProfile>> op_statistics();  // of one operation of a profile

}  // namespace pagedinfer
