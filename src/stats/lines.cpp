#include "stats/lines.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "stats/statistics.h"

namespace pagedinfer {
namespace {

// Formats year, month, day, hour, minute, second and millisecond, in this order.
std::string written(const char* form, double seconds) {
  const std::chrono::sys_time<std::chrono::milliseconds> moment(
      std::chrono::milliseconds(std::llround(1e3 * seconds)));
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(moment - day);
  return fmt::format(fmt::runtime(form), int(date.year()), unsigned(date.month()),
                     unsigned(date.day()), time.hours().count(), time.minutes().count(),
                     time.seconds().count(), time.subseconds().count());
}

// Rounded to a microsecond: clocks are not more precise.
double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

// Under the names of vLLM's benchmark_serving; `max` is our addition.
void add_spread(JsonWriter& json, std::string_view name, const Spread& spread) {
  constexpr std::pair<std::string_view, double Spread::*> kParts[] = {
      {"mean", &Spread::mean}, {"median", &Spread::p50}, {"std", &Spread::deviation},
      {"p50", &Spread::p50},   {"p90", &Spread::p90},    {"p99", &Spread::p99},
      {"max", &Spread::max}};
  for (const auto& [part, seconds] : kParts) {
    json.key(fmt::format("{}_{}_ms", part, name));
    spread.count > 0 ? json.value(milliseconds(spread.*seconds)) : json.value(nullptr);
  }
}

double rounded(Unit unit, double number) {
  switch (unit) {
    case Unit::kMilliseconds: return milliseconds(number);
    case Unit::kAmount: return std::stod(fmt::format("{:.5g}", number));
    default: return std::round(number * 1e6) / 1e6;
  }
}

void add_counts(JsonWriter& json, const Counts& counts) {
  json.begin_object();
  for (const auto& [code, count] : counts) json.field(code.name(), count);
  json.end_object();
}

template <class Of>
void add_fields(JsonWriter& json, const auto& rows, const Of& of) {
  for (const auto& row : rows) {
    const Measure measure = row.get(of);
    if (const auto* const spread = std::get_if<Spread>(&measure)) {
      add_spread(json, row.name, *spread);
      continue;
    }
    json.key(row.name);
    std::visit(
        [&, unit = row.unit](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            json.value(nullptr);
          } else if constexpr (std::is_same_v<T, double>) {
            json.value(rounded(unit, value));
          } else if constexpr (std::is_same_v<T, std::string>) {
            unit == Unit::kJson ? json.raw(value) : json.value(value);
          } else if constexpr (std::is_same_v<T, Counts>) {
            add_counts(json, value);
          } else if constexpr (!std::is_same_v<T, Spread>) {
            json.value(value);
          }
        },
        measure);
  }
}

// An object of one line. `at` is in seconds on the run's clock; `add` adds the fields.
void append_line(std::string& out, const RunStamp& run, double at, const auto& add) {
  JsonWriter json(out);
  json.begin_object().field("run_id", run.id).field("time", time_of_day(run.began + at));
  add(json);
  json.end_object();
  out += '\n';
}

void add_profile(JsonWriter& json, const Profile& profile) {
  json.begin_object();
  add_fields(json, profile_statistics(), profile);
  json.key("ops").begin_array();
  for (const OpProfile& op : profile.ops) {
    json.begin_object();
    add_fields(json, op_statistics(), op);
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

RunStamp make_run_stamp(double began, uint64_t random) {
  const std::string when = written("{:04}{:02}{:02}T{:02}{:02}{:02}Z", began);
  return {.id = fmt::format("{}-{:016x}", when, random), .began = began};
}

std::string time_of_day(double seconds) {
  return written("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", seconds);
}

void append_request_line(std::string& out, const RunStamp& run, const RequestStats& request) {
  append_line(out, run, request.finished,
              [&](JsonWriter& json) { add_fields(json, request_statistics(), request); });
}

void append_step_line(std::string& out, const RunStamp& run, const StepStats& step) {
  append_line(out, run, step.end,
              [&](JsonWriter& json) { add_fields(json, step_statistics(), step); });
}

void add_config(JsonWriter& json, const std::vector<ConfigEntry>& config) {
  json.begin_object();
  for (const ConfigEntry& setting : config) {
    json.key(setting.name);
    std::visit([&](const auto& value) { json.value(value); }, setting.value);
  }
  json.end_object();
}

void add_measurements(JsonWriter& json, const Summary& summary) {
  add_fields(json, summary_statistics(), summary);
}

void append_summary(std::string& out, const RunStamp& run, const RunInfo& info,
                    const Summary& summary, const std::optional<Profile>& profile) {
  append_line(out, run, summary.times.total, [&](JsonWriter& json) {
    json.field("version", info.version)
        .field("input", info.input)
        .field("model", info.model)
        .field("device", info.device);
    add_config(json.key("config"), info.config);
    json.field("notes", info.notes);
    add_measurements(json, summary);
    if (profile) add_profile(json.key("profile"), *profile);
  });
}

}  // namespace pagedinfer
