#include "cli/merge_flags.h"

#include "cli/flag_help.h"

namespace pagedinfer {

void add_merge_flags(CLI::App& command, MergeConfig& config) {
  const auto add = [](CLI::Option* option, const std::string& value, std::string_view help) {
    set_help(*option, "Merge", value, help);
  };
  command.add_option("SHARD", config.shards)
      ->option_text("FILE...")
      ->description("Outputs of shards, in any order, each of a run that has ended.");
  add(command.add_option("-o,--output", config.output), "FILE|-",
      "Where the records go; - is standard output. A file gets its name when it is complete.");
  add(command.add_flag("--overwrite", config.overwrite), "",
      "Give it to replace an output that exists. Without it the merge is refused.");
  add(command.add_flag("--trust", config.trust), "",
      "Give it to merge shards without a SHARD.run, which cannot be checked for completeness. "
      "Without it they are refused.");
  add(command.add_flag("--quiet", config.quiet), "",
      "No closing line. For scripts; errors still show.");
  command.footer(
      "\nEvery index from 0 to the largest must be there once. The SHARD.run files are checked too:"
      "\nthe runs must differ in the shard only, no shard may be missing, and each output must be"
      "\nwhat its run has written." +
      exit_codes_help("merge"));
}

}  // namespace pagedinfer
