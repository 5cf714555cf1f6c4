#include "commands/verify/verify_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "core/refusal.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

void add_head(JsonWriter& json, const RecordHead& head) {
  json.key("id").raw(head.id_json.empty() ? "null" : head.id_json);
  json.field("index", head.index).field("line", head.line);
}

void add_place(JsonWriter& json, const TokenPlace& place) {
  const auto in_completion = [&](int number) {
    return place.choice < 0 ? std::nullopt : std::optional(number);
  };
  json.field("choice", in_completion(place.choice));
  json.field("token", in_completion(place.token));
  json.field("position", place.position);
}

void add_chosen(JsonWriter& json, std::string_view key, const TokenChosen& chosen,
                const TokenLabels& label_of) {
  json.key(key).begin_object();
  json.field("token_id", chosen.token);
  json.field("text", chosen.token ? std::optional(label_of(*chosen.token).text) : std::nullopt);
  json.field("margin", chosen.margin);
  json.field("lead", chosen.lead);
  json.end_object();
}

// The outcome of a line, in words. REQUIRES: `other` has another outcome.
std::string outcome_of(const Completion& answer, const Completion& other) {
  if (answer.failed()) return std::string(answer.error.code.name());
  if (other.failed() || answer.trace.prompts == other.trace.prompts) {
    return fmt::format("{} completions", answer.choices.size());
  }
  const auto [prompt, differs] = std::ranges::mismatch(answer.trace.prompts, other.trace.prompts);
  if (prompt == answer.trace.prompts.end() || differs == other.trace.prompts.end()) {
    return fmt::format("{} prompts", answer.trace.prompts.size());
  }
  const auto part = std::ranges::mismatch(*prompt, *differs).in1 - prompt->begin();
  return fmt::format("a prompt of {} tokens that differs from position {} on", prompt->size(),
                     part);
}

std::string text_of(const RecordHead& head) {
  if (head.id_json.empty()) return fmt::format("line {}", head.line);
  return fmt::format("line {} (id {})", head.line, shortened(head.id_json));
}

std::string text_of(const TokenPlace& place, size_t num_choices) {
  const std::string choice = num_choices > 1 ? fmt::format("choice {}, ", place.choice) : "";
  return fmt::format("{}token {} (position {})", choice, place.token, place.position);
}

std::string text_of(const TokenChosen& chosen, const TokenLabels& label_of) {
  if (!chosen.token) return "its end";
  std::string name;
  append_json_string(name, label_of(*chosen.token).text);
  std::string text = fmt::format("{} ({}", name, *chosen.token);
  if (chosen.margin) text += fmt::format(", margin {:.3g}", *chosen.margin);
  return text + ")";
}

std::string text_of(const LogProbDifference& difference, const TokenLabels& label_of) {
  const auto shown = [](std::optional<float> number) {
    return number ? fmt::format("{:.6g}", *number) : "none";
  };
  std::string name;
  append_json_string(name, label_of(difference.token).text);
  std::string text = fmt::format("of {} {}, entry {}: of {} ({}) {} in a, {} in b",
                                 difference.is_of_prompt ? "prompt" : "choice", difference.number,
                                 difference.entry, name, difference.token, shown(difference.a),
                                 shown(difference.b));
  text += fmt::format("; {} {}", grouped(difference.num_entries),
                      difference.num_entries == 1 ? "entry differs" : "entries differ");
  if (difference.largest) text += fmt::format(" by up to {:.3g}", *difference.largest);
  if (difference.is_tolerated) text += "; tolerated";
  return text;
}

}  // namespace

void VerifyCounts::add(const Completion& a, const AnswerComparison& comparison) {
  ++requests;
  if (comparison.is_equal()) {
    ++equal;
    errors += a.failed();
  } else if (comparison.agrees()) {
    ++tolerated;
  } else {
    ++differ;
  }
  tokens += comparison.tokens;
  tokens_behind += comparison.tokens_behind;
  log_probs += comparison.log_probs;
  log_probs_differ += comparison.log_probs_differ;
  rows += comparison.rows;
  rows_differ += comparison.rows_differ;
}

void append_difference_lines(std::string& out, const Completion& a, const Completion& b,
                             const AnswerComparison& comparison, const TokenLabels& label_of) {
  const auto add_line = [&](std::string_view kind, bool agrees, const auto& add_rest) {
    JsonWriter json(out);
    json.begin_object().field("kind", kind);
    add_head(json, a.head);
    json.field("agrees", agrees);
    add_rest(json);
    json.end_object();
    out += '\n';
  };
  if (!comparison.same_outcome) {
    add_line("difference", false, [&](JsonWriter& json) {
      json.field("outcome_a", outcome_of(a, b)).field("outcome_b", outcome_of(b, a));
    });
  }
  for (const TokenDifference& difference : comparison.differences) {
    add_line("difference", difference.is_tolerated, [&](JsonWriter& json) {
      add_place(json, difference.place);
      add_chosen(json, "a", difference.a, label_of);
      add_chosen(json, "b", difference.b, label_of);
    });
  }
  for (const LogProbDifference& difference : comparison.log_prob_differences) {
    add_line("log_probabilities", difference.is_tolerated, [&](JsonWriter& json) {
      json.field(difference.is_of_prompt ? "prompt" : "choice", difference.number);
      json.field("entry", difference.entry).field("token_id", difference.token);
      json.field("text", label_of(difference.token).text);
      json.field("a", difference.a);
      json.field("b", difference.b);
      json.field("entries", difference.num_entries);
      json.field("largest_difference", difference.largest);
    });
  }
}

void append_row_line(std::string& out, const RecordHead& head, const RowDifference& row) {
  JsonWriter json(out);
  json.begin_object().field("kind", "logits");
  add_head(json, head);
  add_place(json, row.place);
  json.field("computed", row.why_not.empty());
  json.field("largest_difference", row.largest);
  json.field("of_token_id", row.largest ? std::optional(row.token) : std::nullopt);
  json.end_object();
  out += '\n';
}

void append_verify_line(std::string& out, const VerifiedRuns& runs, const VerifyCounts& counts) {
  JsonWriter json(out);
  json.begin_object()
      .field("kind", "verify")
      .field("version", runs.version)
      .field("input", runs.input)
      .field("a", runs.a)
      .field("b", runs.b);
  json.field("tolerance", runs.tolerance);
  json.field("requests", counts.requests)
      .field("equal", counts.equal)
      .field("equal_errors", counts.errors)
      .field("tolerated", counts.tolerated)
      .field("differ", counts.differ)
      .field("tokens", counts.tokens)
      .field("tokens_not_compared", counts.tokens_behind)
      .field("log_probabilities", counts.log_probs)
      .field("log_probabilities_differ", counts.log_probs_differ);
  const auto if_any = [&](int64_t count) {
    return runs.has_rows ? std::optional(count) : std::nullopt;
  };
  json.field("rows", if_any(counts.rows));
  json.field("rows_differ", if_any(counts.rows_differ));
  json.end_object();
  out += '\n';
}

std::string difference_text(const Completion& a, const Completion& b,
                            const AnswerComparison& comparison, const TokenLabels& label_of) {
  std::string text;
  if (!comparison.same_outcome) {
    text += fmt::format("{}: a has {}, b has {}\n", text_of(a.head), outcome_of(a, b),
                        outcome_of(b, a));
  }
  for (const TokenDifference& difference : comparison.differences) {
    text +=
        fmt::format("{}, {}: {} in a, {} in b{}\n", text_of(a.head),
                    text_of(difference.place, a.choices.size()), text_of(difference.a, label_of),
                    text_of(difference.b, label_of), difference.is_tolerated ? "; tolerated" : "");
  }
  for (const LogProbDifference& difference : comparison.log_prob_differences) {
    text +=
        fmt::format("{}, log probabilities {}\n", text_of(a.head), text_of(difference, label_of));
  }
  return text;
}

std::string row_text(const RecordHead& head, const RowDifference& row) {
  const std::string of =
      row.place.choice < 0
          ? fmt::format("prompt {}, position {}", row.place.prompt, row.place.position)
          : fmt::format("choice {}, {}", row.place.choice, text_of(row.place, 1));
  const std::string place = fmt::format("{}, {}", text_of(head), of);
  if (!row.why_not.empty()) {
    return fmt::format("{}: logits differ; they were not computed once more, as {}\n", place,
                       row.why_not);
  }
  if (!row.largest) return fmt::format("{}: rows that are computed alone are equal\n", place);
  return fmt::format("{}: logits differ by up to {:.3g}, of token {}\n", place, *row.largest,
                     row.token);
}

std::string verify_table(const VerifiedRuns& runs, const VerifyCounts& counts) {
  std::string table = table_row(
      "compared",
      fmt::format("{} requests, {} tokens", grouped(counts.requests), grouped(counts.tokens)));
  std::string equal = fmt::format("{} requests", grouped(counts.equal));
  if (counts.errors > 0) equal += fmt::format(", {} of them errors", grouped(counts.errors));
  table += table_row("equal", equal);
  if (runs.tolerance) {
    table += table_row("tolerated",
                       fmt::format("{} requests; {} tokens behind these differences were not "
                                   "compared",
                                   grouped(counts.tolerated), grouped(counts.tokens_behind)));
  }
  table += table_row("differ", fmt::format("{} requests", grouped(counts.differ)));
  if (counts.log_probs > 0) {
    table +=
        table_row("log probs", fmt::format("of {} tokens, {} differ", grouped(counts.log_probs),
                                           grouped(counts.log_probs_differ)));
  }
  if (runs.has_rows) {
    table += table_row("logits", fmt::format("{} rows, {} differ", grouped(counts.rows),
                                             grouped(counts.rows_differ)));
  }
  return table;
}

}  // namespace pagedinfer
