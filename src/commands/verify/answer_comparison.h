// Whether two runs gave the same answer to a line, and where they first differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// A token of an answer, or of a prompt that was scored.
struct TokenPlace {
  int choice = 0;    // of the record; -1: the token is in the prompt
  int prompt = 0;    // index in the line of the prompt that it belongs to
  int token = 0;     // of the completion, from 0; -1: the token is in the prompt
  int position = 0;  // number of tokens before it, including the prompt's
  bool operator==(const TokenPlace&) const = default;
};

// What one of the runs chose at a place.
struct TokenChosen {
  std::optional<TokenId> token = {};  // none: the completion had ended
  std::optional<float> margin = {};   // the likeliest token's logit minus the second likeliest's
  // The logit of this token minus the logit of the other run's token. none: unknown, because the
  // other token is not among the kept candidates.
  std::optional<float> lead = {};
};

// The first token of a choice in which the runs differ.
struct TokenDifference {
  TokenPlace place = {};
  TokenChosen a = {}, b = {};
  bool is_tolerated = false;
};

// Two lists of log probabilities that differ. A list belongs to a prompt or to a choice.
struct LogProbDifference {
  bool is_of_prompt = false;
  int number = 0;  // of the prompt in the line, or of the choice in the record
  // The first entry that differs, and the first token of the entry whose log probability differs:
  // the entry's own token or a candidate. `a` and `b` are its values; none: that run does not have
  // it as a candidate.
  int entry = 0;
  TokenId token = kNoToken;
  std::optional<float> a = {}, b = {};
  int64_t num_entries = 0;            // entries that differ
  std::optional<float> largest = {};  // difference between the two log probabilities of a token
  bool is_tolerated = false;
};

struct AnswerComparison {
  // Both have the same error code, or both have no error, the same prompt tokens and the same
  // number of choices.
  bool same_outcome = true;
  // One for each choice that differs, in the order of the choices.
  std::vector<TokenDifference> differences = {};
  // One for each list that differs: first lists of prompts, then lists of choices.
  std::vector<LogProbDifference> log_prob_differences = {};
  int64_t tokens = 0;         // tokens that were compared
  int64_t tokens_behind = 0;  // tokens after a tolerated difference, which were not compared
  int64_t log_probs = 0, log_probs_differ = 0;  // entries that were compared, and that differ
  // Rows of logits that were compared by their hashes, and how many of them differ. They are the
  // rows of the compared tokens and of scored prompts.
  int64_t rows = 0, rows_differ = 0;
  std::optional<TokenPlace> first_row = {};  // the first row that differs

  bool is_equal() const {
    return same_outcome && differences.empty() && log_prob_differences.empty();
  }
  bool agrees() const;  // equal, or all differences are tolerated
};

// Log probabilities are compared if the answers have them, up to the first token that differs. They
// are the same if their bits are the same.
//
// With a tolerance, two different tokens are tolerated if their logits differ by at most the
// tolerance in both runs. Different log probabilities are tolerated if no token's values differ by
// more. A token that a run did not report counts as that run's last candidate. REQUIRES: both
// completions belong to one line and keep their draws.
AnswerComparison compare_answers(const Completion& a, const Completion& b,
                                 std::optional<double> tolerance, bool has_hashes);

}  // namespace pagedinfer
