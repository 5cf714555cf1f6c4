#include "cli/command_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_flags.h"
#include "cli/flag_help.h"
#include "cli/merge_flags.h"
#include "cli/near_name.h"
#include "cli/run_flags.h"
#include "core/error.h"
#include "core/shortened.h"
#include "engine/bench_job.h"
#include "engine/job.h"
#include "engine/merge_job.h"
#include "engine/output_paths.h"
#include "settings/config.h"

namespace pagedinfer {
namespace {

void check_leftovers(const std::vector<std::string>& leftovers,
                     const std::vector<std::string>& known, const std::string& help) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  if (const std::optional<std::string> meant = near_name(name, known)) {
    throw Error(fmt::format("{}: unknown; did you mean {}? See {}", shortened(name), *meant, help));
  }
  throw Error(fmt::format("{}: unknown; see {}", shortened(name), help));
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// Checks that flags have values, before CLI11 parses: it takes any following word for a value and
// has messages of its own style.
void check_values(const CLI::App& command, std::span<const char* const> words) {
  const auto option_of = [&](std::string_view word) -> const CLI::Option* {
    return word.starts_with("-") ? command.get_option_no_throw(std::string(word)) : nullptr;
  };
  for (size_t i = 0; i < words.size() && std::string_view(words[i]) != "--"; ++i) {
    const std::string_view word = words[i];
    const size_t equals = word.find('=');
    const CLI::Option* const option = option_of(word.substr(0, equals));
    if (option == nullptr) continue;
    if (equals == 2) {  // "-o=X": CLI11 would make "=X" the value
      throw Error(fmt::format("{}: expected a space between {} and its value", shortened(word),
                              word.substr(0, 2)));
    }
    const bool takes_value = option->get_items_expected_max() > 0;
    if (!takes_value && equals != std::string_view::npos) {
      throw Error(fmt::format("{}: {} takes no value", shortened(word), word.substr(0, equals)));
    }
    if (!takes_value) continue;
    if (equals != std::string_view::npos ? equals + 1 == word.size() : i + 1 == words.size()) {
      throw Error(fmt::format("{}: expected a value", word));
    }
    if (equals != std::string_view::npos) continue;
    if (const std::string_view value = words[++i]; option_of(value) != nullptr) {
      throw Error(fmt::format(
          "{0}: expected a value, found the flag {1}; {0}={1} makes it the value", word, value));
    }
  }
}

// Reports a flag that is given twice in our own words.
void check_repeated(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const bool takes_one = option->get_items_expected_max() == 1;
    if (takes_one && option->count() > 1) {
      throw Error(
          fmt::format("{}: given {} times, expected once", option->get_name(), option->count()));
    }
  }
}

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
  CLI::App app("Completes a file of prompts with a language model.", "pagedinfer");
  CLI::App* const run =
      app.add_subcommand("run", "Complete a file of prompts, one record for each line.");
  CLI::App* const merge =
      app.add_subcommand("merge", "Put the outputs of shards together, in the order of the input.");
  CLI::App* const bench = app.add_subcommand("bench", "Make a workload and measure how it is run.");
  const std::vector<CLI::App*> subcommands = {run, merge, bench};
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands) names.push_back(command->get_name());
  for (CLI::App* command : {&app, run, merge, bench}) {
    command->allow_extras();
    command->get_formatter()->column_width(kHelpColumn);
    command->set_help_flag("-h,--help", "Print this help and exit.");
    command->set_version_flag("--version", "pagedinfer " PAGEDINFER_VERSION,
                              "Print the version and exit.");
  }
  add_run_flags(*run, config);
  add_merge_flags(*merge, merge_config);
  add_bench_flags(*bench, bench_config);

  const auto help_of = [](const CLI::App& command) {
    return fmt::format("pagedinfer {} --help", command.get_name());
  };
  const std::span<const char* const> words(argv, static_cast<size_t>(argc));
  const std::string first = argc > 1 ? words[1] : "-";
  const auto named = std::ranges::find(names, first);
  if (!first.starts_with("-") && named == names.end()) {  // before its --help
    check_leftovers({first}, names, "pagedinfer --help");
  }
  CLI::App* const asked =
      named == names.end() ? nullptr : subcommands[static_cast<size_t>(named - names.begin())];
  if (asked != nullptr) check_values(*asked, words.subspan(2));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // help or version
    return app.exit(wanted, std::cout, std::cerr);
  } catch (const CLI::ParseError&) {
    const CLI::App& command = asked != nullptr ? *asked : *run;
    check_repeated(command);
    throw Error(fmt::format("{}: expected flags and their values; see {}",
                            shortened(fmt::format("{}", fmt::join(words.subspan(1), " "))),
                            help_of(command)));
  }
  if (asked == nullptr) {
    check_leftovers(app.remaining(), {}, "pagedinfer --help");
    throw Error(
        "expected a subcommand: pagedinfer run --input FILE (pagedinfer --help lists more)");
  }
  const std::vector<std::string> leftovers = app.remaining(true);
  if (asked == bench) check_unused_flags(leftovers);
  check_leftovers(leftovers, flags_of(*asked), help_of(*asked));
  if (asked == merge) {
    check_open("--output", merge_config.output, "output", standard.output);
    return run_merge(merge_config);
  }
  if (asked == bench) {
    check_workload(bench_config);
    check_open("--output", bench_config.config.output, "output", standard.output);
    bench_config.command = command_text(words);
    return run_bench(bench_config);
  }
  check_open("--input", config.input, "input", standard.input);
  check_open("--output", resolve_paths(config).output, "output", standard.output);
  return run_job(config);
}

}  // namespace pagedinfer
