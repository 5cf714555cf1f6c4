#include "commands/verify/answer_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pagedinfer {
namespace {

std::optional<float> log_probability_of(TokenId token,
                                        const std::vector<TokenCandidate>& candidates) {
  const auto found = std::ranges::find(candidates, token, &TokenCandidate::token);
  if (found == candidates.end()) return std::nullopt;
  return found->log_probability;
}

std::optional<float> log_probability_of(TokenId token, const DrawnToken& draw) {
  return token == draw.token ? draw.log_probability : log_probability_of(token, draw.candidates);
}

// What `own` chose as token i of a choice. Two log probabilities of one row differ by as much as
// the two logits.
TokenChosen chosen(const Completion& own, const Completion& other, size_t choice, size_t i) {
  TokenChosen result;
  const std::vector<TokenId>& tokens = own.choices[choice].tokens;
  const std::vector<TokenId>& others = other.choices[choice].tokens;
  if (i >= tokens.size()) return result;
  result.token = tokens[i];
  const DrawnToken& draw = own.trace.draws[choice][i];
  if (draw.candidates.size() >= 2) {
    result.margin = draw.candidates[0].log_probability - draw.candidates[1].log_probability;
  }
  if (i >= others.size()) return result;
  const auto here = log_probability_of(tokens[i], draw);
  const auto there = log_probability_of(others[i], draw);
  if (here && there) result.lead = *here - *there;
  return result;
}

bool is_within(const TokenChosen& chosen, double tolerance) {
  return chosen.lead && std::abs(static_cast<double>(*chosen.lead)) <= tolerance;
}

// The index of the first token that differs. If one list is the beginning of the other, its size.
size_t first_other_token(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool same_bits(std::optional<float> a, std::optional<float> b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::bit_cast<uint32_t>(*a) == std::bit_cast<uint32_t>(*b);
}

std::optional<float> last_of(const TokenLogProbs& entry) {
  if (entry.candidates.empty()) return std::nullopt;
  return entry.candidates.back().log_probability;
}

// How two entries for one token differ.
class EntryComparison {
 public:
  EntryComparison(const TokenLogProbs& a, const TokenLogProbs& b) {
    add(a.token, a.log_probability, b.log_probability);
    keep_distance(a.log_probability, b.log_probability);
    for (const TokenCandidate& candidate : a.candidates) {
      const std::optional<float> there = log_probability_of(candidate.token, b.candidates);
      add(candidate.token, candidate.log_probability, there);
      keep_distance(candidate.log_probability, there ? there : last_of(b));
    }
    for (const TokenCandidate& candidate : b.candidates) {
      if (log_probability_of(candidate.token, a.candidates)) continue;
      add(candidate.token, std::nullopt, candidate.log_probability);
      keep_distance(last_of(a), candidate.log_probability);
    }
  }

  struct Value {
    TokenId token;
    std::optional<float> a, b;
  };
  std::optional<Value> first = {};    // that differs
  std::optional<float> largest = {};  // difference
  double distance = 0;  // lower bound on the difference of the logits; infinity: unknown

 private:
  void add(TokenId token, std::optional<float> a, std::optional<float> b) {
    if (same_bits(a, b)) return;
    if (!first) first = {token, a, b};
    if (a && b) largest = std::max(largest.value_or(0), std::abs(*a - *b));
  }

  void keep_distance(std::optional<float> a, std::optional<float> b) {
    if (!a && !b) return;
    const double between = a && b ? std::abs(double{*a} - double{*b}) : INFINITY;
    distance = std::max(distance, between);
  }
};

class CompletionPair {
 public:
  CompletionPair(const Completion& a, const Completion& b, std::optional<double> tolerance)
      : a_(a), b_(b), tolerance_(tolerance) {}

  void compare_tokens(size_t choice) {
    const CompletionChoice &a = a_.choices[choice], &b = b_.choices[choice];
    const size_t first = first_other_token(a.tokens, b.tokens);
    const size_t longest = std::max(a.tokens.size(), b.tokens.size());
    if (first == longest) {
      result.tokens += std::ssize(a.tokens);
      return;
    }
    TokenDifference difference = {.place = place(choice, first),
                                  .a = chosen(a_, b_, choice, first),
                                  .b = chosen(b_, a_, choice, first)};
    difference.is_tolerated =
        tolerance_ && is_within(difference.a, *tolerance_) && is_within(difference.b, *tolerance_);
    result.tokens += static_cast<int64_t>(first) + 1;
    if (difference.is_tolerated) {
      result.tokens_behind += static_cast<int64_t>(longest - first) - 1;
    }
    result.differences.push_back(difference);
  }

  void compare_log_probs() {
    for (size_t i = 0; i < std::min(a_.prompt_log_probs.size(), b_.prompt_log_probs.size()); ++i) {
      compare_lists(a_.prompt_log_probs[i], b_.prompt_log_probs[i],
                    {.is_of_prompt = true, .number = static_cast<int>(i)});
    }
    for (size_t i = 0; i < a_.choices.size(); ++i) {
      if (!a_.choices[i].log_probs || !b_.choices[i].log_probs) continue;
      compare_lists(*a_.choices[i].log_probs, *b_.choices[i].log_probs,
                    {.number = static_cast<int>(i)});
    }
  }

  void compare_rows_of_prompts() {
    for (size_t i = 0; i < a_.trace.prompt_hashes.size(); ++i) {
      const std::vector<uint64_t>&a = a_.trace.prompt_hashes[i], &b = b_.trace.prompt_hashes[i];
      for (size_t token = 1; token < std::min(a.size(), b.size()); ++token) {
        compare_row(a[token], b[token],
                    {.choice = -1,
                     .prompt = static_cast<int>(i),
                     .token = -1,
                     .position = static_cast<int>(token)});
      }
    }
  }

  // Rows are compared up to the first token that differs, because up to there both runs have the
  // same tokens.
  void compare_rows(size_t choice) {
    const size_t num_same = first_other_token(a_.choices[choice].tokens, b_.choices[choice].tokens);
    const std::vector<DrawnToken>&a = a_.trace.draws[choice], &b = b_.trace.draws[choice];
    for (size_t i = 0; i < std::min({num_same + 1, a.size(), b.size()}); ++i) {
      compare_row(a[i].logits_hash, b[i].logits_hash, place(choice, i));
    }
  }

  AnswerComparison result;

 private:
  void compare_lists(const std::vector<TokenLogProbs>& a, const std::vector<TokenLogProbs>& b,
                     LogProbDifference difference) {
    double distance = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i].token == b[i].token; ++i) {
      result.log_probs += a[i].log_probability || b[i].log_probability;
      const EntryComparison entry(a[i], b[i]);
      if (!entry.first) continue;
      if (difference.num_entries++ == 0) {
        difference.entry = static_cast<int>(i);
        difference.token = entry.first->token;
        difference.a = entry.first->a;
        difference.b = entry.first->b;
      }
      difference.largest = std::max(difference.largest, entry.largest);
      distance = std::max(distance, entry.distance);
    }
    if (difference.num_entries == 0) return;
    difference.is_tolerated = tolerance_ && distance <= *tolerance_;
    result.log_probs_differ += difference.num_entries;
    result.log_prob_differences.push_back(difference);
  }

  void compare_row(uint64_t a, uint64_t b, const TokenPlace& place) {
    ++result.rows;
    if (a == b) return;
    ++result.rows_differ;
    if (!result.first_row) result.first_row = place;
  }

  // Every prompt of a line has the same number of choices.
  TokenPlace place(size_t choice, size_t token) const {
    const size_t per_prompt = std::max<size_t>(1, a_.choices.size() / a_.trace.prompts.size());
    const size_t prompt = choice / per_prompt;
    return {.choice = static_cast<int>(choice),
            .prompt = static_cast<int>(prompt),
            .token = static_cast<int>(token),
            .position = static_cast<int>(a_.trace.prompts[prompt].size() + token)};
  }

  const Completion &a_, &b_;
  const std::optional<double> tolerance_;
};

}  // namespace

bool AnswerComparison::agrees() const {
  return same_outcome && std::ranges::all_of(differences, &TokenDifference::is_tolerated) &&
         std::ranges::all_of(log_prob_differences, &LogProbDifference::is_tolerated);
}

AnswerComparison compare_answers(const Completion& a, const Completion& b,
                                 std::optional<double> tolerance, bool has_hashes) {
  CompletionPair comparison(a, b, tolerance);
  AnswerComparison& result = comparison.result;
  // The numbers of choices differ only if the line is an error in one run. The tokens of the
  // prompts differ only if the runs have two tokenizers.
  result.same_outcome = a.error.code == b.error.code && a.trace.prompts == b.trace.prompts &&
                        a.choices.size() == b.choices.size();
  if (!result.same_outcome) return result;
  if (has_hashes) comparison.compare_rows_of_prompts();
  for (size_t choice = 0; choice < a.choices.size(); ++choice) {
    comparison.compare_tokens(choice);
    if (has_hashes) comparison.compare_rows(choice);
  }
  comparison.compare_log_probs();
  return result;
}

}  // namespace pagedinfer
