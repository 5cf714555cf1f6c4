#include "commands/bench/bench_results.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string_view>

#include "core/build_facts.h"
#include "core/json.h"
#include "io/open_file.h"
#include "stats/lines.h"

namespace pagedinfer {
namespace {

std::ifstream open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw cannot_open(path, errno);
  return file;
}

void add_lengths(JsonWriter& json, std::string_view key, const IntegerRange& lengths) {
  json.key(key).begin_array().value(lengths.from).value(lengths.to).end_array();
}

double six_digits(double number) { return std::round(number * 1e6) / 1e6; }

void add_machine(JsonWriter& json, const RunInfo& info) {
  const Processor processor = this_processor();
  json.key("machine").begin_object();
  json.field("processor", processor.name)
      .field("family", processor.family)
      .field("model", processor.model);
  const auto threads = std::ranges::find(info.config, "threads", &ConfigEntry::name);
  if (threads != info.config.end()) json.field("threads", std::get<int64_t>(threads->value));
  json.field("device", info.device).end_object();
}

void add_workload(JsonWriter& json, const MeasuredWorkload& measured) {
  const BenchWorkload& workload = measured.workload;
  const WorkloadShape& shape = workload.shape;
  json.key("workload").begin_object();
  json.field("name", shape.name).field("seed", workload.seed).field("requests", shape.requests);
  if (shape.from_trace) {
    json.field("trace_csv", measured.bench.trace_csv)
        .field("time_scale", measured.bench.time_scale.value_or(1));
  } else {
    add_lengths(json, "prompt_tokens", shape.prompt);
    add_lengths(json, "output_tokens", shape.output);
  }
  if (shape.heads > 0) json.field("heads", shape.heads).field("head_tokens", shape.head_tokens);
  if (shape.long_every > 0) {
    json.field("long_every", shape.long_every);
    add_lengths(json, "long_tokens", shape.long_prompt);
  }
  json.field("rate", six_digits(measured.rate));
  if (measured.bench.load) {
    json.field("load", *measured.bench.load).field("capacity", six_digits(measured.capacity));
  }
  json.field("clipped", workload.num_clipped).end_object();
}

// Leaves out temporary files, which no longer exist.
void add_used_config(JsonWriter& json, const Config& given, std::vector<ConfigEntry> config) {
  std::erase_if(config, [&](const ConfigEntry& entry) {
    return entry.name == "input" || (entry.name == "output" && given.output.empty()) ||
           (entry.name == "stats" && given.stats.empty());
  });
  json.key("config");
  add_config(json, config);
}

void add_summary(JsonWriter& json, const RunInfo& info, const Summary& summary) {
  json.key("summary").begin_object();
  json.field("notes", info.notes);
  add_measurements(json, summary);
  json.end_object();
}

void add_ratio(JsonWriter& json, const RatioToFirst& ratio) {
  const auto add = [&](std::optional<double> number) {
    number ? json.value(six_digits(*number)) : json.value(nullptr);
  };
  json.begin_object().field("of", ratio.of).field("to", 0).field("figure", ratio.figure);
  json.field("median", six_digits(ratio.ratio.median)).key("mean_95").begin_array();
  add(ratio.ratio.low);
  add(ratio.ratio.mean);
  add(ratio.ratio.high);
  json.end_array().end_object();
}

void begin_line(JsonWriter& json, const MeasuredWorkload& measured, const RunInfo& info) {
  json.begin_object().field("commit", build_commit());
  add_machine(json, info);
  json.field("command", measured.bench.command).field("version", info.version);
  add_workload(json, measured);
}

}  // namespace

Processor read_processor(std::istream& from) {
  Processor processor;
  for (std::string line; std::getline(from, line) && !line.empty();) {  // of the first core
    const size_t tab = line.find('\t'), colon = line.find(": ");
    if (tab == std::string::npos || colon == std::string::npos) continue;
    const std::string_view key = std::string_view(line).substr(0, tab);
    const std::string value = line.substr(colon + 2);
    if (key == "model name") processor.name = value;
    if (key == "cpu family") processor.family = value;
    if (key == "model") processor.model = value;
  }
  return processor;
}

Processor this_processor() {
  std::ifstream file("/proc/cpuinfo");
  return read_processor(file);
}

std::optional<int64_t> first_difference(const std::string& a, const std::string& b) {
  std::ifstream first = open(a), second = open(b);
  std::string line, other;
  for (int64_t number = 1;; ++number) {
    const bool has_line = static_cast<bool>(std::getline(first, line));
    const bool has_other = static_cast<bool>(std::getline(second, other));
    if (!has_line && !has_other) return std::nullopt;
    // A last line without a newline differs from the same line with one.
    if (has_line != has_other || line != other || first.eof() != second.eof()) return number;
  }
}

void append_result_line(std::string& out, const MeasuredWorkload& measured,
                        const JobResult& result) {
  JsonWriter json(out);
  begin_line(json, measured, result.info);
  add_used_config(json, measured.bench.config, result.info.config);
  add_summary(json, result.info, result.summary);
  json.end_object();
  out += '\n';
}

void append_comparison_line(std::string& out, const MeasuredWorkload& measured,
                            const Comparison& comparison) {
  JsonWriter json(out);
  begin_line(json, measured, comparison.infos.front());
  json.field("pairs", comparison.runs.front().runs.size());
  json.key("configurations").begin_array();
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const ComparedRuns& runs = comparison.runs[i];
    json.begin_object().field("flags", runs.flags);
    add_used_config(json, measured.bench.config, comparison.infos[i].config);
    add_summary(json, comparison.infos[i], runs.runs[median_run(runs)]);
    json.end_object();
  }
  json.end_array().key("ratios").begin_array();
  for (const RatioToFirst& ratio : ratios_to_first(comparison.runs)) add_ratio(json, ratio);
  json.end_array().field("same_completions", comparison.same_completions).end_object();
  out += '\n';
}

}  // namespace pagedinfer
