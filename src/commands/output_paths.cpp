#include "commands/output_paths.h"

#include <fmt/format.h>

#include <initializer_list>

#include "core/error.h"
#include "core/refusal.h"
#include "io/file_names.h"
#include "io/packing.h"

namespace pagedinfer {
namespace {

// The path without those of the endings that it has, one after the other.
std::string without(std::initializer_list<std::string_view> endings, std::string_view path) {
  for (const std::string_view ending : endings) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return std::string(path);
}

std::string default_output(const Config& config) {
  if (config.input == "-") return "-";
  const std::string name = without({".jsonl", ".csv", ".tsv"}, without_packing(config.input));
  if (!config.shard) return name + ".completions.jsonl";
  return fmt::format("{}.{}-of-{}.completions.jsonl", name, config.shard->index,
                     config.shard->count);
}

}  // namespace

Paths resolve_paths(const Config& config) {
  const std::string output = config.output.empty() ? default_output(config) : config.output;
  Paths paths = {.output = records_of(output),
                 .stats = config.stats,
                 .summary = "",
                 .made = has_final_form(output) ? output : ""};
  if (paths.stats.empty() && !is_stream(output)) {
    paths.stats =
        without({".csv", ".jsonl", ".completions"}, without_packing(output)) + ".stats.jsonl";
  }
  if (!paths.stats.empty() && !is_stream(paths.stats)) {
    paths.summary = without({".jsonl", ".stats"}, paths.stats) + ".summary.json";
  }
  return paths;
}

bool is_only_made(const Paths& paths) {
  return !paths.made.empty() && name_exists(paths.made) && !name_exists(paths.output) &&
         !name_exists(part_of(paths.output));
}

void check_output_name(std::string_view flag, const std::string& path, bool of_records) {
  const auto refuse = [&](std::string_view ending, std::string_view why) {
    throw Error(fmt::format("{} {}: ends with {}, and {}", flag, shortened(path), ending, why));
  };
  if (of_records && path.ends_with(".parquet")) {
    refuse(".parquet",
           "the program writes JSON lines and CSV; the Python module's run() of a pyarrow table "
           "gives a table for pyarrow.parquet.write_table, and DuckDB converts JSON lines: COPY "
           "(FROM 'records.jsonl') TO 'records.parquet'");
  }
  if (of_records && without_packing(path).ends_with(".tsv")) {
    refuse(".tsv", "the program writes JSON lines and CSV; give a name in .csv or another one");
  }
  const PackingForm* const packing = packing_of_name(path);
  if (of_records && has_final_form(path) && is_stream(path)) {
    refuse(packing != nullptr ? packing->ending : ".csv",
           "a pipe or device gets JSON lines as they come; give a file or another name");
  }
  if (!of_records && packing != nullptr) {
    refuse(packing->ending, fmt::format("what is written is not compressed; give a name without {}",
                                        packing->ending));
  }
}

}  // namespace pagedinfer
