#include "commands/output_paths.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/shortened.h"
#include "io/file_names.h"

namespace pagedinfer {
namespace {

std::string without_ending(std::string_view path) {
  for (const std::string_view ending : {".gz", ".jsonl"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return std::string(path);
}

}  // namespace

Paths resolve_paths(const Config& config) {
  Paths paths = {.output = config.output, .stats = config.stats};
  std::string name = without_ending(config.input);
  if (config.shard) name += fmt::format(".{}-of-{}", config.shard->index, config.shard->count);
  if (paths.output.empty()) {
    paths.output = config.input == "-" ? "-" : name + ".completions.jsonl";
  }
  if (paths.stats.empty() && config.input != "-" && !is_standard_output(paths.output)) {
    paths.stats = name + ".stats.jsonl";
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
