#include "cli/command_line.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flag_group.h"
#include "cli/merge_flags.h"
#include "cli/run_flags.h"
#include "core/config.h"
#include "core/error.h"
#include "engine/job.h"
#include "engine/merge_job.h"

namespace pagedinfer {
namespace {

// Named by the tool's plan and not there yet: refused with more than "unknown".
constexpr std::string_view kLater[] = {"bench",
                                       "verify",
                                       "plan",
                                       "--kv-dtype",
                                       "--prefix-cache",
                                       "--quantize",
                                       "--logit-bias",
                                       "--n",
                                       "--best-of",
                                       "--beam-width",
                                       "--length-penalty",
                                       "--early-stopping",
                                       "--logprobs",
                                       "--prompt-logprobs"};

bool is_later(std::string_view name) {
  return std::find(std::begin(kLater), std::end(kLater), name) != std::end(kLater);
}

void check_leftovers(const std::vector<std::string>& leftovers, const std::string& help) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  if (is_later(name)) throw Error(name + ": not in this version");
  throw Error(fmt::format("{}: not known; {} lists what is", name, help));
}

// The parser's own words for a flag that is there twice speak of its expectations.
void check_repeated(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const bool takes_one = option->get_items_expected_max() == 1;
    if (takes_one && option->count() > 1) {
      throw Error(
          fmt::format("{}: given {} times, expected once", option->get_name(), option->count()));
    }
  }
}

}  // namespace

int run_command_line(int argc, const char* const* argv, StandardFiles standard) {
  if (argc > 1 && is_later(argv[1])) check_leftovers({argv[1]}, "");  // before its --help
  Config config;
  MergeConfig merge_config;
  CLI::App app("Completes a file of prompts with a language model.", "pagedinfer");
  CLI::App* const run =
      app.add_subcommand("run", "Complete a file of prompts, one record for each line.");
  CLI::App* const merge =
      app.add_subcommand("merge", "Put the outputs of shards together, in the order of the input.");
  for (CLI::App* command : {&app, run, merge}) {
    command->allow_extras();
    command->get_formatter()->column_width(kHelpColumn);
    command->set_help_flag("-h,--help", "Print this help and exit.");
    command->set_version_flag("--version", "pagedinfer " PAGEDINFER_VERSION,
                              "Print the version and exit.");
  }
  add_run_flags(*run, config);
  add_merge_flags(*merge, merge_config);

  const auto help_of = [](const CLI::App& command) {
    return fmt::format("pagedinfer {} --help", command.get_name());
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // help or version
    return app.exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = merge->parsed() ? *merge : *run;
    check_repeated(command);
    throw Error(fmt::format("{}; {} says what it takes", error.what(), help_of(command)));
  }
  if (!run->parsed() && !merge->parsed()) {
    check_leftovers(app.remaining(), "pagedinfer --help");
    throw Error(
        "expected a subcommand: pagedinfer run --input FILE (pagedinfer --help lists more)");
  }
  check_leftovers(app.remaining(true), help_of(merge->parsed() ? *merge : *run));
  config.has_input = standard.input;
  config.has_output = merge_config.has_output = standard.output;
  return merge->parsed() ? run_merge(merge_config) : run_job(config);
}

}  // namespace pagedinfer
