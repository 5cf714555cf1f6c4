// The exit codes of the program. --help prints this list, and a test checks docs/jobs.md against
// it.
#pragma once

#include <string_view>

namespace pagedinfer {

namespace exit_code {
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;     // an Error, or blocks of the cache that have leaked
inline constexpr int kSomeWrong = 2;  // error records, differences, lines that would be errors
inline constexpr int kInterrupted = 130;
}  // namespace exit_code

struct ExitCodeRow {
  std::string_view command;
  int code;
  std::string_view meaning;
};

// Sorted by command. bench has the codes of run.
inline constexpr ExitCodeRow kExitCodes[] = {
    {"run", exit_code::kDone, "all lines completed"},
    {"run", exit_code::kFailed, "the run could not go on"},
    {"run", exit_code::kSomeWrong, "some lines ended in an error record"},
    {"run", exit_code::kInterrupted, "interrupted; what is finished is on disk"},
    {"merge", exit_code::kDone, "all records are in the output"},
    {"merge", exit_code::kFailed, "something is wrong and nothing has changed"},
    {"merge", exit_code::kInterrupted, "interrupted; nothing has changed"},
    {"verify", exit_code::kDone, "all requests agree"},
    {"verify", exit_code::kFailed, "a run could not go on"},
    {"verify", exit_code::kSomeWrong, "some requests differ"},
    {"verify", exit_code::kInterrupted, "interrupted; nothing was compared"},
    {"plan", exit_code::kDone, "the plan is printed"},
    {"plan", exit_code::kFailed, "such a run could not begin"},
    {"plan", exit_code::kInterrupted, "interrupted"},
    {"info", exit_code::kDone, "a run takes the model, or all lines of --render"},
    {"info", exit_code::kFailed, "a run would refuse the model, or there is no model"},
    {"info", exit_code::kSomeWrong, "some lines of --render would end in an error record"},
};

}  // namespace pagedinfer
