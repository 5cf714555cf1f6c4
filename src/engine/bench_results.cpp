#include "engine/bench_results.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/build_commit.h"
#include "core/json.h"
#include "engine/machine.h"
#include "stats/lines.h"

namespace pagedinfer {
namespace {

void add_lengths(JsonWriter& json, std::string_view key, const LengthRange& lengths) {
  json.key(key).begin_array().value(lengths.min).value(lengths.max).end_array();
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

// Files that were made for the bench and are gone are left out.
void add_used_config(JsonWriter& json, const Config& given, std::vector<ConfigEntry> config) {
  std::erase_if(config, [&](const ConfigEntry& entry) {
    return entry.name == "input" || (entry.name == "output" && given.output.empty()) ||
           (entry.name == "stats" && given.stats.empty());
  });
  json.key("config");
  add_config(json, config);
}

void add_summary(JsonWriter& json, const JobResult& result) {
  json.key("summary").begin_object();
  json.field("notes", result.info.notes);
  add_measurements(json, result.info, result.summary);
  json.end_object();
}

void begin_line(JsonWriter& json, const MeasuredWorkload& measured, const RunInfo& info) {
  json.begin_object().field("commit", build_commit());
  add_machine(json, info);
  json.field("command", measured.bench.command).field("version", info.version);
  add_workload(json, measured);
}

}  // namespace

void append_result_line(std::string& out, const MeasuredWorkload& measured,
                        const JobResult& result) {
  JsonWriter json(out);
  begin_line(json, measured, result.info);
  add_used_config(json, measured.bench.config, result.info.config);
  add_summary(json, result);
  json.end_object();
  out += '\n';
}

}  // namespace pagedinfer
