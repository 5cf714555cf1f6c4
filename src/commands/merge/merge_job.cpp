#include "commands/merge/merge_job.h"

#include <fmt/format.h>

#include <cstdio>

#include "commands/output_paths.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "io/interrupt.h"
#include "io/open_file.h"
#include "output/merge.h"

namespace pagedinfer {

namespace {

constexpr FlagOf<MergeConfig> kMergeFlags[] = {
    flag_row(Group::kMerge, "SHARD", field_of<&MergeConfig::shards, Kind::kWords>(),
             "Outputs of shards, in any order, each of a run that has ended.", ""),
    flag_row(Group::kMerge, "output", field_of<&MergeConfig::output, Kind::kPath>(),
             "Where the records go; - is standard output. A file gets its name when it is "
             "complete.",
             "",
             {.letter = 'o', .not_empty = "a file, or - for standard output", .value = "FILE|-"}),
    flag_row(Group::kMerge, "overwrite", field_of<&MergeConfig::overwrite>(),
             "Replace an output that exists.", "Without it the merge is refused."),
    flag_row(Group::kMerge, "trust", field_of<&MergeConfig::trust>(),
             "Merge shards without a SHARD.run, which cannot be checked for completeness.",
             "Without it they are refused."),
    flag_row(Group::kMerge, "quiet", field_of<&MergeConfig::quiet>(), "No closing line.",
             "For scripts; errors still show."),
};

}  // namespace

std::span<const FlagOf<MergeConfig>> merge_flags() { return kMergeFlags; }

int run_merge(const MergeConfig& config) {
  if (config.shards.empty()) {
    throw Error("expected the outputs of shards: pagedinfer merge --output FILE SHARD SHARD ...");
  }
  if (config.output.empty()) throw Error("--output: expected a file, or - for standard output");
  check_output_name("--output", config.output);
  Interrupt interrupt;
  MergeReport report;
  try {
    const OpenFile reader = wait_for_reader(config.output, interrupt.fd());
    interrupt.throw_if_happened();
    report = merge_shards(config.shards, config.output,
                          {.overwrite = config.overwrite,
                           .trust = config.trust,
                           .check = [&] { interrupt.throw_if_happened(); },
                           .open_pipe = reader.fd});
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
