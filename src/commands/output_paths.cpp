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
  Paths paths = {.output = config.output.empty() ? default_output(config) : config.output,
                 .stats = config.stats,
                 .summary = ""};
  if (paths.stats.empty() && !is_stream(paths.output)) {
    paths.stats = without({".jsonl", ".completions"}, paths.output) + ".stats.jsonl";
  }
  if (!paths.stats.empty() && !is_stream(paths.stats)) {
    paths.summary = without({".jsonl", ".stats"}, paths.stats) + ".summary.json";
  }
  return paths;
}

void check_output_name(std::string_view flag, std::string_view path) {
  if (!path.ends_with(".gz")) return;
  throw Error(
      fmt::format("{} {}: ends with .gz, and what is written is not compressed; give a "
                  "name without .gz",
                  flag, shortened(path)));
}

}  // namespace pagedinfer
