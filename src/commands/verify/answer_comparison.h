// Whether two runs gave the same answer to a line, and where they parted.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// A token of an answer, or of a prompt that was scored.
struct TokenPlace {
  int choice = 0;    // of the record; -1: the token is in the prompt
  int prompt = 0;    // of the line, that it belongs to
  int token = 0;     // of the completion, from 0; -1: the token is in the prompt
  int position = 0;  // of the sequence: the tokens before it, those of the prompt included
  bool operator==(const TokenPlace&) const = default;
};

// What one of the runs chose at a place.
struct TokenChosen {
  std::optional<TokenId> token = {};  // none: the completion had ended
  std::optional<float> margin = {};   // of the likeliest token's logit over the next one's
  // By how much the logit of this choice is above that of the other run's; none: not known, as that
  // is not among the likeliest ones.
  std::optional<float> lead = {};
};

// The first token of a choice in which the runs differ.
struct TokenDifference {
  TokenPlace place = {};
  TokenChosen a = {}, b = {};
  bool is_tolerated = false;
};

// Two lists of log probabilities that are not the same: those of a prompt's tokens, or those of a
// choice's.
struct LogProbDifference {
  bool is_of_prompt = false;
  int number = 0;  // of the prompt in the line, or of the choice in the record
  // The first entry that differs, and the first token whose log probability does: the entry's own,
  // or a candidate. none: it is no candidate there.
  int entry = 0;
  TokenId token = kNoToken;
  std::optional<float> a = {}, b = {};
  int64_t num_entries = 0;            // that differ
  std::optional<float> largest = {};  // difference of two log probabilities of one token
  bool is_tolerated = false;
};

struct AnswerComparison {
  // The same error code; or none, the same tokens of the prompts, and as many choices.
  bool same_outcome = true;
  // One for each choice that differs, in their order.
  std::vector<TokenDifference> differences = {};
  // One for each list that differs: those of the prompts, then those of the choices.
  std::vector<LogProbDifference> log_prob_differences = {};
  int64_t tokens = 0;                           // that were compared
  int64_t tokens_behind = 0;                    // a tolerated difference: these were not
  int64_t log_probs = 0, log_probs_differ = 0;  // entries that were compared, and that differ
  // Where rows have hashes: those of the tokens that were compared and of prompts that were scored,
  // and how many differ.
  int64_t rows = 0, rows_differ = 0;
  std::optional<TokenPlace> first_row = {};  // of those that differ

  bool is_equal() const {
    return same_outcome && differences.empty() && log_prob_differences.empty();
  }
  bool agrees() const;  // equal, or all differences are tolerated
};

// Log probabilities are compared where the answers have them, up to the first token that differs,
// and are the same if their bits are.
//
// With a tolerance, a difference of tokens is tolerated if in both runs the logits of the two
// tokens are no further apart; one of log probabilities, if no token's are further apart in the two
// runs, where the last candidate of a run stands for those that it does not have. REQUIRES: both
// are of one line, and their draws are kept.
AnswerComparison compare_answers(const Completion& a, const Completion& b,
                                 std::optional<double> tolerance, bool has_hashes);

}  // namespace pagedinfer
