#include "jobs/answer_comparison.h"

#include <algorithm>
#include <cmath>

namespace pagedinfer {
namespace {

// The draw of a token; null if there is none, or it was not kept.
const DrawnToken* draw_of(const CompletionChoice& choice, size_t i) {
  return i < choice.draws.size() ? &choice.draws[i] : nullptr;
}

std::optional<float> log_probability_of(TokenId token, const DrawnToken& draw) {
  if (token == draw.token) return draw.log_probability;
  const auto found = std::ranges::find(draw.candidates, token, &TokenCandidate::token);
  if (found == draw.candidates.end()) return std::nullopt;
  return found->log_probability;
}

// Differences of log probabilities of a row are those of its logits.
TokenChosen chosen(const CompletionChoice& own, const CompletionChoice& other, size_t i) {
  TokenChosen result;
  if (i >= own.tokens.size()) return result;
  result.token = own.tokens[i];
  const DrawnToken* const draw = draw_of(own, i);
  if (draw == nullptr) return result;
  if (draw->candidates.size() >= 2) {
    result.margin = draw->candidates[0].log_probability - draw->candidates[1].log_probability;
  }
  if (i >= other.tokens.size()) return result;
  const auto here = log_probability_of(own.tokens[i], *draw);
  const auto there = log_probability_of(other.tokens[i], *draw);
  if (here && there) result.lead = *here - *there;
  return result;
}

bool is_within(const TokenChosen& chosen, double tolerance) {
  return chosen.lead && std::abs(static_cast<double>(*chosen.lead)) <= tolerance;
}

// The first token in which they differ; the number of tokens where one is the other's beginning.
size_t first_difference(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class Comparison {
 public:
  Comparison(const Completion& a, const Completion& b, std::optional<double> tolerance)
      : a_(a), b_(b), tolerance_(tolerance) {}

  void compare_tokens(size_t choice) {
    const CompletionChoice &a = a_.choices[choice], &b = b_.choices[choice];
    const size_t first = first_difference(a.tokens, b.tokens);
    const size_t longest = std::max(a.tokens.size(), b.tokens.size());
    if (first == longest) {
      result.tokens += std::ssize(a.tokens);
      return;
    }
    TokenDifference difference = {
        .place = place(choice, first), .a = chosen(a, b, first), .b = chosen(b, a, first)};
    difference.is_tolerated =
        tolerance_ && is_within(difference.a, *tolerance_) && is_within(difference.b, *tolerance_);
    result.tokens += static_cast<int64_t>(first) + 1;
    if (difference.is_tolerated) {
      result.tokens_behind += static_cast<int64_t>(longest - first) - 1;
    }
    result.differences.push_back(difference);
  }

  // Rows of logits follow from the same tokens up to the first token that differs.
  void compare_rows(size_t choice) {
    const CompletionChoice &a = a_.choices[choice], &b = b_.choices[choice];
    const size_t num_rows =
        std::min({first_difference(a.tokens, b.tokens) + 1, a.draws.size(), b.draws.size()});
    result.rows += static_cast<int64_t>(num_rows);
    for (size_t i = 0; i < num_rows; ++i) {
      if (a.draws[i].logits_hash == b.draws[i].logits_hash) continue;
      ++result.rows_differ;
      if (!result.first_row) result.first_row = place(choice, i);
    }
  }

  AnswerComparison result;

 private:
  // A line's prompts have as many choices each.
  TokenPlace place(size_t choice, size_t token) const {
    const size_t per_prompt = std::max<size_t>(1, a_.choices.size() / a_.prompts.size());
    const size_t prompt = choice / per_prompt;
    return {.choice = static_cast<int>(choice),
            .prompt = static_cast<int>(prompt),
            .token = static_cast<int>(token),
            .position = static_cast<int>(a_.prompts[prompt].size() + token)};
  }

  const Completion &a_, &b_;
  const std::optional<double> tolerance_;
};

}  // namespace

bool AnswerComparison::agrees() const {
  return same_outcome && std::ranges::all_of(differences, &TokenDifference::is_tolerated);
}

AnswerComparison compare_answers(const Completion& a, const Completion& b,
                                 std::optional<double> tolerance, bool has_hashes) {
  Comparison comparison(a, b, tolerance);
  AnswerComparison& result = comparison.result;
  // One line gives as many choices in both runs, unless it is an error in one.
  result.same_outcome = a.error.code == b.error.code && a.choices.size() == b.choices.size();
  if (!result.same_outcome) return result;
  for (size_t choice = 0; choice < a.choices.size(); ++choice) {
    comparison.compare_tokens(choice);
    if (has_hashes) comparison.compare_rows(choice);
  }
  return result;
}

}  // namespace pagedinfer
