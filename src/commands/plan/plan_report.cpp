#include "commands/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "core/refusal.h"
#include "load/quantization.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

int64_t rounded(double number) { return std::llround(number); }

std::string lengths(const Histogram& tokens) {
  return fmt::format("mean {}, p50 {}, p90 {}, max {}", grouped(rounded(tokens.mean())),
                     grouped(rounded(tokens.percentile(50))),
                     grouped(rounded(tokens.percentile(90))), grouped(rounded(tokens.max())));
}

std::string input_rows(const PlanReport& r) {
  const InputSurvey& s = r.survey;
  std::string out =
      table_row("input", fmt::format("{}: {} lines, {} sequences",
                                     r.input == "-" ? "standard input" : r.input,
                                     grouped(s.num_lines()), grouped(s.num_sequences())));
  for (const auto& [code, count] : s.failed_by_code()) {
    out += table_row(
        "", fmt::format("{} will end in an error record, {}", grouped(count), code.name()));
  }
  if (s.num_requests() == 0) return out;
  out += table_row("prompts",
                   fmt::format("{} tokens; {}", grouped(s.prompt_tokens()), lengths(s.prompts())));
  out += table_row("completions", fmt::format("at most {} tokens; {}", grouped(s.max_new_tokens()),
                                              lengths(s.completions())));
  return out;
}

std::string memory_rows(const PlanReport& r) {
  const MemoryPlan& m = r.plan.memory;
  const HostShare& host = r.plan.host;
  std::string out;
  const auto add = [&](const char* name, int64_t bytes, const std::string& text) {
    out += fmt::format("{:<13}{:<14}{:>10}  {}", out.empty() ? "memory" : "", name,
                       human_bytes(bytes), text);
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  };
  const char* const on_host = r.is_dummy ? "made up in memory" : "files, mapped";
  const char* const kind = r.file_bytes == 0 ? "copied to the device" : on_host;
  const int64_t copies = m.weight_bytes - r.file_bytes;
  add("weights", m.weight_bytes,
      copies > 0 && r.file_bytes > 0
          ? fmt::format("{} {}, {} packed or converted", human_bytes(r.file_bytes), kind,
                        human_bytes(copies))
          : kind);
  add("KV cache", m.kv_bytes,
      fmt::format("{} blocks of {} tokens; {} a token, {} a block", grouped(m.num_blocks),
                  m.block_size, human_bytes(m.kv_bytes_per_token),
                  human_bytes(m.kv_bytes_per_token * m.block_size)));
  add("activations", r.step.activations,
      fmt::format("of {} tokens in a step", grouped(r.plan.bounds.tokens)));
  add("logits", r.step.logits, fmt::format("of {} sequences", grouped(r.plan.bounds.sequences)));
  add("workspace", r.step.workspace, "");
  add("tokenizer", host.tokenizer, "");
  add("threads", host.threads, "at most: of those that compute");
  add("forms", host.forms, "at most: of answers, compiled");
  add("read-ahead", host.read_ahead + host.waiting, "at most: lines and requests that wait");
  add("output", host.output, "at most: records to be written");
  add("answers", r.answer_bytes(), "at most: of the largest line, with log probabilities");
  if (r.kept_bytes() > 0) add("kept keys", r.kept_bytes(), "at most: of lines that wait or run");
  const int64_t per_token = host.per_token * r.num_positions();
  add("bookkeeping", per_token, "at most: of the cache's tokens and blocks");
  add("total", r.total_bytes(),
      fmt::format("{} are available now", human_bytes(m.available_bytes)));
  return out;
}

const char* about(const PlanReport& r) { return r.is_whole() ? "" : "about "; }

std::string sequence_rows(const PlanReport& r) {
  const RunningCounts& running = r.rehearsal.running;
  std::string text = fmt::format("at once: {}mean {}, p50 {}, p90 {}, max {}", about(r),
                                 three_digits(running.mean()), running.percentile(50),
                                 running.percentile(90), running.max());
  if (r.rehearsal.num_preemptions > 0) {
    text += fmt::format("; {} preemptions", grouped(r.rehearsal.num_preemptions));
  }
  std::string out = table_row("sequences", text);
  const double share = static_cast<double>(r.rehearsal.max_positions) /
                       static_cast<double>(std::max<int64_t>(r.num_positions(), 1));
  out += table_row("", fmt::format("they fill at most {} of the cache", percent(share)));
  return out + table_row("", fmt::format("{} contiguous reservations of {} tokens would fit",
                                         grouped(r.num_reservations()),
                                         grouped(r.plan.limits.max_model_len)));
}

std::string prefix_rows(const PlanReport& r) {
  const auto share = [&](int64_t tokens) {
    return percent(static_cast<double>(tokens) /
                   static_cast<double>(std::max<int64_t>(r.survey.prompt_tokens(), 1)));
  };
  const int64_t cached = r.num_cached(), possible = r.survey.num_found();
  std::string text = fmt::format("{}{} tokens of prompts need not be computed, {}", about(r),
                                 grouped(cached), share(cached));
  if (possible > cached + cached / 100) {
    text += fmt::format("; at best {}", share(possible));
  }
  return table_row("prefixes", text);
}

// Breaks a sentence into rows.
std::string sentence_rows(const std::string& name, const std::string& text) {
  constexpr size_t kColumns = 86;
  std::string out;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.size();
    if (end - begin > kColumns) {
      const size_t space = text.rfind(' ', begin + kColumns);
      end = space == std::string::npos || space <= begin ? text.size() : space;
    }
    out += table_row(begin == 0 ? name : "", text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

void append_lengths(JsonWriter& json, const char* name, const Histogram& tokens) {
  json.key(name)
      .begin_object()
      .field("mean", tokens.mean())
      .field("p50", rounded(tokens.percentile(50)))
      .field("p90", rounded(tokens.percentile(90)))
      .field("p99", rounded(tokens.percentile(99)))
      .field("max", rounded(tokens.max()))
      .end_object();
}

void append_input(JsonWriter& json, const PlanReport& r) {
  const InputSurvey& s = r.survey;
  json.key("input").begin_object().field("file", r.input).field("lines", s.num_lines());
  json.field("requests", s.num_requests()).field("sequences", s.num_sequences());
  json.key("failed_by_code").begin_object();
  for (const auto& [code, count] : s.failed_by_code()) json.field(code.name(), count);
  json.end_object();
  json.field("prompt_tokens", s.prompt_tokens()).field("max_completion_tokens", s.max_new_tokens());
  append_lengths(json, "prompts", s.prompts());
  append_lengths(json, "completions", s.completions());
  json.field("longest_sequence", s.longest()).end_object();
}

void append_memory(JsonWriter& json, const PlanReport& r) {
  const MemoryPlan& m = r.plan.memory;
  const HostShare& host = r.plan.host;
  json.key("memory")
      .begin_object()
      .field("available_bytes", m.available_bytes)
      .field("weight_bytes", m.weight_bytes)
      .field("weight_file_bytes", r.file_bytes)
      .field("kv_bytes", m.kv_bytes)
      .field("kv_bytes_per_token", m.kv_bytes_per_token)
      .field("kv_bytes_per_block", m.kv_bytes_per_token * m.block_size)
      .field("num_blocks", m.num_blocks)
      .field("block_size", m.block_size)
      .field("activation_bytes", r.step.activations)
      .field("logits_bytes", r.step.logits)
      .field("workspace_bytes", r.step.workspace)
      .field("tokenizer_bytes", host.tokenizer)
      .field("threads_bytes", host.threads)
      .field("forms_bytes", host.forms)
      .field("read_ahead_bytes", host.read_ahead + host.waiting)
      .field("output_bytes", host.output)
      .field("answers_bytes", r.answer_bytes())
      .field("kept_bytes", r.kept_bytes())
      .field("touched_bytes", r.touched_bytes())
      .field("bookkeeping_bytes", host.per_token * r.num_positions())
      .end_object();
}

void append_sequences(JsonWriter& json, const PlanReport& r) {
  const RunningCounts& running = r.rehearsal.running;
  json.key("sequences_at_once")
      .begin_object()
      .field("mean", running.mean())
      .field("p50", running.percentile(50))
      .field("p90", running.percentile(90))
      .field("max", running.max())
      .end_object();
  json.field("preemptions", r.rehearsal.num_preemptions)
      .field("kv_positions_leased_peak", r.rehearsal.max_positions)
      .field("contiguous_reservations", r.num_reservations())
      .field("cached_tokens", r.num_cached())
      .field("findable_tokens", r.survey.num_found())
      .field("is_sampled", !r.is_whole());
}

}  // namespace

int64_t PlanReport::num_cached() const {
  if (is_whole() || rehearsal.prompt_tokens == 0) return rehearsal.num_cached;
  return rounded(static_cast<double>(rehearsal.num_cached) *
                 static_cast<double>(survey.prompt_tokens()) /
                 static_cast<double>(rehearsal.prompt_tokens));
}

// Counts one more block for each sequence, because its last block need not be full.
int64_t PlanReport::num_touched() const {
  return std::min(num_positions(), survey.prompt_tokens() + survey.max_new_tokens() +
                                       survey.num_sequences() * plan.memory.block_size);
}

int64_t PlanReport::total_bytes() const {
  return plan.memory.weight_bytes + plan.memory.kv_bytes + step.total() + plan.host.tokenizer +
         plan.host.to_come() + answer_bytes() + kept_bytes() +
         plan.host.per_token * num_positions();
}

int64_t PlanReport::touched_bytes() const {
  const int64_t forms = survey.asks_forms() ? 0 : plan.host.forms;
  const int64_t each = plan.memory.kv_bytes_per_token + plan.host.per_token;
  return total_bytes() - forms - (num_positions() - num_touched()) * each;
}

int64_t PlanReport::answer_bytes() const {
  return survey.max_answer_bytes() + num_touched() * log_prob_bytes(survey.max_log_probs());
}

int64_t PlanReport::kept_bytes() const {
  const int64_t num_lines = int64_t{plan.limits.max_waiting} + plan.limits.max_running;
  return std::min(survey.num_lines(), num_lines) * survey.max_kept_bytes();
}

std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double number = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; number >= 1023.5 && unit + 1 < std::size(kUnits); ++unit) number /= 1024;
  return fmt::format("{} {}", three_digits(number), kUnits[unit]);
}

std::string plan_table(const PlanReport& r) {
  std::string weights = weights_text(r.quantize, r.has_codes, r.num_merged, r.dtype);
  if (!weights.empty()) weights += ", ";
  std::string out =
      table_row("model", fmt::format("{}, {} on {}; {}the cache in {}", r.model, name_of(r.dtype),
                                     r.device, weights, name_of(r.plan.kv_type)));
  out += table_row("parameters", text_of(r.parameters));
  if (r.survey.num_requests() > 0) {
    out += table_row("touches", fmt::format("this input touches at most {} of memory",
                                            human_bytes(r.touched_bytes())));
  }
  out += input_rows(r);
  out += memory_rows(r);
  if (r.survey.num_requests() > 0) {
    out += sequence_rows(r);
    out += prefix_rows(r);
    out +=
        table_row("time", "run --limit 200 prints the tokens a second that this machine computes");
  }
  const char* name = "advice";
  for (const Advice& advice : r.advice) {
    out += sentence_rows(name, fmt::format("{}: {}", advice.flag, advice.text));
    name = "";
  }
  return out;
}

std::string plan_json(const PlanReport& r) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("kind", "plan")
      .field("model", r.model)
      .field("dtype", name_of(r.dtype))
      .field("kv_dtype", name_of(r.plan.kv_type))
      .field("quantize", name_of(r.quantize))
      .field("parameters", r.parameters.all)
      .field("active_parameters", r.parameters.active)
      .field("device", r.device);
  append_input(json, r);
  append_memory(json, r);
  append_sequences(json, r);
  json.key("advice").begin_array();
  for (const Advice& advice : r.advice) {
    json.begin_object().field("flag", advice.flag).field("text", advice.text).end_object();
  }
  json.end_array().end_object();
  return out + "\n";
}

}  // namespace pagedinfer
