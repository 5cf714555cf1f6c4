#include "commands/merge/merge_job.h"

#include <fmt/format.h>

#include <cstdio>

#include "commands/output_paths.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "io/file_names.h"
#include "io/interrupt.h"
#include "io/open_file.h"
#include "output/final_form.h"
#include "output/merge.h"

namespace pagedinfer {

namespace {

constexpr FlagOf<MergeConfig> kMergeFlags[] = {
    flag_row(Group::kMerge, "SHARD", field_of<&MergeConfig::shards, Kind::kWords>(),
             "Outputs of shards, in any order, each of a run that has ended.", ""),
    flag_row(Group::kMerge, "output", field_of<&MergeConfig::output, Kind::kPath>(),
             "Where the records go; - is standard output. A file gets its name when it is "
             "complete. A name in .gz or .zst makes compressed JSON lines, one in .csv a table.",
             "",
             {.letter = 'o', .not_empty = "a file, or - for standard output", .value = "FILE|-"}),
    flag_row(Group::kMerge, "overwrite", field_of<&MergeConfig::overwrite>(),
             "Replace an output that exists.", "Without it the merge is refused."),
    flag_row(Group::kMerge, "keep_jsonl", field_of<&MergeConfig::keep_jsonl>(),
             "Keep the JSON lines, OUTPUT.jsonl, of which an output in .gz, .zst or .csv is made.",
             "For a merged output that a run goes on with."),
    flag_row(Group::kMerge, "trust", field_of<&MergeConfig::trust>(),
             "Merge shards without a SHARD.run, which cannot be checked for completeness.",
             "Without it they are refused."),
    flag_row(Group::kMerge, "quiet", field_of<&MergeConfig::quiet>(), "No closing line.",
             "For scripts; errors still show."),
};

// The files of JSON lines of the shards.
std::vector<std::string> shards_of(const MergeConfig& config) {
  std::vector<std::string> records;
  for (const std::string& shard : config.shards) {
    records.push_back(records_of(shard));
    if (name_exists(records.back()) || !name_exists(shard)) continue;
    throw Error(fmt::format(
        "{}: merge reads {}, which is gone; give the shards names in .jsonl, or --keep-jsonl",
        shard, records.back()));
  }
  return records;
}

}  // namespace

std::span<const FlagOf<MergeConfig>> merge_flags() { return kMergeFlags; }

int run_merge(const MergeConfig& config) {
  if (config.shards.empty()) {
    throw Error("expected the outputs of shards: pagedinfer merge --output FILE SHARD SHARD ...");
  }
  if (config.output.empty()) throw Error("--output: expected a file, or - for standard output");
  check_output_name("--output", config.output, true);
  const bool makes_output = has_final_form(config.output);
  const std::string records = records_of(config.output);
  if (makes_output && name_exists(config.output) && !config.overwrite) {
    throw Error(config.output + ": the file exists; --overwrite replaces it");
  }
  Interrupt interrupt;
  MergeReport report;
  try {
    const OpenFile reader = wait_for_reader(records, interrupt.fd());
    const auto check = [&] { interrupt.throw_if_happened(); };
    check();
    report = merge_shards(shards_of(config), records,
                          {.overwrite = config.overwrite,
                           .trust = config.trust,
                           .check = check,
                           .open_pipe = reader.fd});
    if (makes_output) {
      try {
        write_final_form(config.output, check);
      } catch (const Interrupted&) {
        remove_records(config.output);
        throw;
      }
      if (!config.keep_jsonl) remove_records(config.output);
    }
  } catch (const Interrupted&) {
    if (!config.quiet) std::fputs("interrupted: nothing has changed\n", stderr);
    return exit_code::kInterrupted;
  }
  if (!config.quiet) {
    fmt::print(stderr, "merged {} records of {} files, {} of them errors\n", report.num_records,
               config.shards.size(), report.num_failed);
  }
  return exit_code::kDone;
}

}  // namespace pagedinfer
