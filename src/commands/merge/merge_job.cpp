#include "commands/merge/merge_job.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "commands/output_paths.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "io/interrupt.h"
#include "io/open_file.h"
#include "output/merge.h"

namespace pagedinfer {

namespace {

using MergeFlag = CommandFlag<MergeConfig>;
constexpr std::string_view kMerge = "Merge";

constexpr MergeFlag kMergeFlags[] = {
    {kMerge, "SHARD", "FILE...", "",
     "Outputs of shards, in any order, each of a run that has ended.", "",
     [](const MergeFlag&, std::string_view text, MergeConfig& merge) {
       merge.shards.emplace_back(text);
     }},
    {kMerge, "-o,--output", "FILE|-", "",
     "Where the records go; - is standard output. A file gets its name when it is complete.", "",
     give_text<&MergeConfig::output>},
    {kMerge, "--overwrite", "", "", "Replace an output that exists.",
     "Without it the merge is refused.", give_switch<&MergeConfig::overwrite>},
    {kMerge, "--trust", "", "",
     "Merge shards without a SHARD.run, which cannot be checked for completeness.",
     "Without it they are refused.", give_switch<&MergeConfig::trust>},
    {kMerge, "--quiet", "", "", "No closing line.", "For scripts; errors still show.",
     give_switch<&MergeConfig::quiet>},
};

}  // namespace

std::span<const CommandFlag<MergeConfig>> merge_flags() { return kMergeFlags; }

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
