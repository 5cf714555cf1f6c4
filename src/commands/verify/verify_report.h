// The report of `verify`: lines of JSON, and rows of a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commands/verify/answer_comparison.h"
#include "core/request.h"
#include "output/log_probs.h"

namespace pagedinfer {

// The numbers of a whole comparison.
struct VerifyCounts {
  int64_t requests = 0;
  int64_t equal = 0, tolerated = 0, differ = 0;  // they add up to `requests`
  int64_t errors = 0;                            // equal requests with the same error in both runs
  int64_t tokens = 0, tokens_behind = 0;         // as in AnswerComparison
  int64_t log_probs = 0, log_probs_differ = 0;
  int64_t rows = 0, rows_differ = 0;

  void add(const Completion& a, const AnswerComparison& comparison);
};

// The first row of an answer's logits in which the runs differ, computed again in both
// configurations.
struct RowDifference {
  int64_t turn = 0;
  TokenPlace place = {};
  // The largest difference between the two logits of a token, and that token. none: computed alone,
  // the rows are equal, or they were not computed.
  std::optional<float> largest = {};
  TokenId token = kNoToken;
  std::string_view why_not = {};  // why the rows were not computed; "": they were
};

// Two runs of a file.
struct VerifiedRuns {
  std::string version, input;
  std::string a, b;  // flags
  std::optional<double> tolerance = {};
  bool has_rows = false;
};

// {"kind":"difference",...}: one for each choice of an answer that differs, or for its outcome.
// Then {"kind":"log_probabilities",...}: one for each list of log probabilities that differs.
void append_difference_lines(std::string& out, const Completion& a, const Completion& b,
                             const AnswerComparison& comparison, const TokenLabels& label_of);

// {"kind":"logits",...}
void append_row_line(std::string& out, const RecordHead& head, const RowDifference& row);

// {"kind":"verify",...}
void append_verify_line(std::string& out, const VerifiedRuns& runs, const VerifyCounts& counts);

// The differences of an answer in words: a line for each choice and list that differs.
std::string difference_text(const Completion& a, const Completion& b,
                            const AnswerComparison& comparison, const TokenLabels& label_of);
std::string row_text(const RecordHead& head, const RowDifference& row);

// The counts as rows of a table.
std::string verify_table(const VerifiedRuns& runs, const VerifyCounts& counts);

}  // namespace pagedinfer
