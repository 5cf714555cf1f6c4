// Whether two runs gave the same answer to a line, and where they parted.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// A token of an answer.
struct TokenPlace {
  int choice = 0;    // of the record
  int prompt = 0;    // of the line, that it belongs to
  int token = 0;     // of the completion, from 0
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

struct AnswerComparison {
  bool same_outcome = true;  // the same error code, or none and as many choices
  // One for each choice that differs, in their order.
  std::vector<TokenDifference> differences = {};
  int64_t tokens = 0;         // that were compared
  int64_t tokens_behind = 0;  // a tolerated difference: these were not
  // Where draws have hashes: those of the tokens that were compared, and how many differ.
  int64_t rows = 0, rows_differ = 0;
  std::optional<TokenPlace> first_row = {};  // of those that differ

  bool is_equal() const { return same_outcome && differences.empty(); }
  bool agrees() const;  // equal, or all differences are tolerated
};

// A difference is tolerated if in both runs the logits of the two tokens are no further apart than
// the tolerance; without one none is. REQUIRES: both are of one line, and their draws are kept.
AnswerComparison compare_answers(const Completion& a, const Completion& b,
                                 std::optional<double> tolerance, bool has_hashes);

}  // namespace pagedinfer
