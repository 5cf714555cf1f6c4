#include "cli/command_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench_flags.h"
#include "cli/command_flags.h"
#include "cli/flag_checks.h"
#include "cli/flag_help.h"
#include "cli/info_flags.h"
#include "cli/merge_flags.h"
#include "cli/plan_flags.h"
#include "cli/run_flags.h"
#include "cli/verify_flags.h"
#include "core/error.h"
#include "core/shortened.h"
#include "jobs/bench_job.h"
#include "jobs/info_job.h"
#include "jobs/job.h"
#include "jobs/merge_job.h"
#include "jobs/output_paths.h"
#include "jobs/plan_job.h"
#include "jobs/verify_job.h"
#include "settings/config.h"

namespace pagedinfer {
namespace {

void check_open(const char* flag, const std::string& path, const char* stream, bool is_open) {
  if (path != "-" || is_open) return;
  throw Error(
      fmt::format("{} -: standard {} is closed; expected an open one, or a file", flag, stream));
}

}  // namespace

int run_command_line(int argc, const char* const* argv, StandardFiles standard) {
  Config config;
  MergeConfig merge_config;
  BenchConfig bench_config;
  PlanConfig plan_config;
  InfoConfig info_config;
  VerifyConfig verify_config;
  CLI::App app("Completes a file of prompts with a language model.", "pagedinfer");
  CLI::App* const run =
      app.add_subcommand("run", "Complete a file of prompts, one record for each line.");
  CLI::App* const merge =
      app.add_subcommand("merge", "Put the outputs of shards together, in the order of the input.");
  CLI::App* const bench = app.add_subcommand("bench", "Make a workload and measure how it is run.");
  CLI::App* const plan =
      app.add_subcommand("plan", "Say what a run would take: memory, sequences at once, time.");
  CLI::App* const info =
      app.add_subcommand("info", "Say what a model is and what of it is supported.");
  CLI::App* const verify =
      app.add_subcommand("verify", "Compare two configurations over a file of prompts.");
  const std::vector<CLI::App*> subcommands = {run, merge, bench, plan, info, verify};
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands) names.push_back(command->get_name());
  for (CLI::App* command : {&app, run, merge, bench, plan, info, verify}) {
    command->allow_extras();
    command->get_formatter()->column_width(kHelpColumn);
    command->set_help_flag("-h,--help", "Print this help and exit.");
    command->set_version_flag("--version", "pagedinfer " PAGEDINFER_VERSION,
                              "Print the version and exit.");
  }
  add_run_flags(*run, config);
  add_merge_flags(*merge, merge_config);
  add_bench_flags(*bench, bench_config);
  add_plan_flags(*plan, plan_config);
  add_info_flags(*info, info_config);
  add_verify_flags(*verify, verify_config);

  const auto help_of = [](const CLI::App& command) {
    return fmt::format("pagedinfer {} --help", command.get_name());
  };
  std::vector<const char*> words(argv, argv + argc);
  bench_config.command = command_text(words);
  const std::string first = argc > 1 ? words[1] : "-";
  const auto named = std::ranges::find(names, first);
  if (!first.starts_with("-") && named == names.end()) {  // before its --help
    check_leftovers({first}, names, "pagedinfer --help");
  }
  CLI::App* const asked =
      named == names.end() ? nullptr : subcommands[static_cast<size_t>(named - names.begin())];
  std::optional<std::vector<std::string>> configurations;
  if (asked == bench) configurations = take_configurations(words);
  const std::span<const char* const> rest(words);
  if (asked != nullptr) check_values(*asked, rest.subspan(2));
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Success& wanted) {  // help or version
    return app.exit(wanted, std::cout, std::cerr);
  } catch (const CLI::ParseError&) {
    const CLI::App& command = asked != nullptr ? *asked : *run;
    check_repeated(command);
    throw Error(fmt::format("{}: expected flags and their values; see {}",
                            shortened(fmt::format("{}", fmt::join(rest.subspan(1), " "))),
                            help_of(command)));
  }
  if (asked == nullptr) {
    check_leftovers(app.remaining(), {}, "pagedinfer --help");
    throw Error(
        "expected a subcommand: pagedinfer run --input FILE (pagedinfer --help lists more)");
  }
  const std::vector<std::string> leftovers = app.remaining(true);
  if (asked == bench) check_unused_flags(leftovers, unused_in_bench());
  if (asked == verify) check_unused_flags(leftovers, unused_in_verify());
  check_leftovers(leftovers, flags_of(*asked), help_of(*asked));
  if (asked == merge) {
    check_open("--output", merge_config.output, "output", standard.output);
    return run_merge(merge_config);
  }
  if (asked == info) {
    check_open("--render", info_config.render, "input", standard.input);
    check_open("--output", "-", "output", standard.output);
    return run_info(info_config);
  }
  if (asked == bench) {
    check_workload(bench_config);
    check_open("--output", bench_config.config.output, "output", standard.output);
    if (configurations) bench_config.compare = read_variants(*configurations, bench_config.config);
    return run_bench(bench_config);
  }
  if (asked == plan) {
    check_open("--input", plan_config.config.input, "input", standard.input);
    return run_plan_job(plan_config);
  }
  if (asked == verify) {
    check_open("--output", verify_config.output, "output", standard.output);
    read_sides(verify_config);
    return run_verify(verify_config);
  }
  check_open("--input", config.input, "input", standard.input);
  check_open("--output", resolve_paths(config).output, "output", standard.output);
  return run_job(config);
}

}  // namespace pagedinfer
