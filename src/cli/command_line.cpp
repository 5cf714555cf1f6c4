#include "cli/command_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/command_flags.h"
#include "cli/flag_checks.h"
#include "cli/outline.h"
#include "cli/pages.h"
#include "cli/variant_flags.h"
#include "commands/command_table.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "core/refusal.h"

namespace pagedinfer {
namespace {

using Words = std::vector<const char*>;

constexpr const char* kTopHelp = "pagedinfer --help";

// The command line as a shell would take it.
std::string text_of(const Words& words) {
  std::string text = "pagedinfer";
  for (const char* const word : std::span(words).subspan(1)) {
    text += fmt::format(" {}", shell_word(word));
  }
  return text;
}

// Removes the variants flag from the command line, with the words after it up to the next of the
// command's own flags, and returns these words. nullopt if the flag is not there.
template <class Options>
std::optional<std::vector<std::string>> take_variants(const Command<Options>& command,
                                                      Words& words) {
  const auto is_flag = [](std::string_view word, std::string_view flag) {
    return word.substr(0, word.find('=')) == flag;
  };
  if (command.variants_flag.empty()) return std::nullopt;
  const auto begin = std::ranges::find_if(
      words, [&](std::string_view word) { return is_flag(word, command.variants_flag); });
  if (begin == words.end()) return std::nullopt;
  std::vector<std::string> texts;
  const std::string_view first = *begin;
  if (const size_t equals = first.find('='); equals != first.npos) {
    texts.emplace_back(first.substr(equals + 1));
  }
  const auto end = std::find_if(begin + 1, words.end(), [&](std::string_view word) {
    return std::ranges::any_of(command.own_flags(), [&](const FlagOf<Options>& flag) {
      return is_flag(word, flag_of(flag));
    });
  });
  texts.insert(texts.end(), begin + 1, end);
  words.erase(begin, end);
  return texts;
}

// "help run" as "run --help".
Words with_help_as_flag(Words words) {
  if (words.size() < 2 || words[1] != std::string_view("help")) return words;
  if (words.size() > 2) std::swap(words[1], words[2]);
  words[words.size() > 2 ? 2 : 1] = "--help";
  return words;
}

// Refuses the first word of a command line that names no subcommand.
void check_subcommand(const std::string& word, const std::vector<std::string>& names) {
  if (word.starts_with('-')) return;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(word, ignored)) {
    throw Error(
        fmt::format("{0}: is a file; expected a subcommand, as in pagedinfer run --input {0}",
                    shell_word(shortened(word))));
  }
  check_leftovers({word}, names, kTopHelp);
}

// Parses the words. If they ask for help or the version, prints it and returns the exit code.
std::optional<int> parse(CLI::App& app, const CLI::App& command, const Words& words,
                         std::string_view help) {
  try {
    app.parse(static_cast<int>(words.size()), words.data());
    return std::nullopt;
  } catch (const CLI::Success& wanted) {
    return app.exit(wanted, std::cout, std::cerr);
  } catch (const CLI::ParseError&) {
    check_repeated(command);
    throw Error(fmt::format(
        "{}: expected flags and their values; see {}",
        shortened(fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "))), help));
  }
}

template <class Options>
int run_command(const Command<Options>& command, CLI::App& app, Words words,
                StandardFiles standard) {
  Options options;
  CLI::App& flags = *app.get_subcommand(std::string(command.name));
  const bool shows_all = std::ranges::find(words, std::string_view(kHelpAll)) != words.end();
  add_flags(flags, command, options, shows_all);
  const std::string help = fmt::format("pagedinfer {} {}", command.name, kHelpAll);
  CommandLine line = {.text = text_of(words), .standard = standard, .read_variant = read_variant};
  line.variants = take_variants(command, words);
  check_values(flags, std::span(words).subspan(2));
  if (const std::optional<int> code = parse(app, flags, words, help)) return *code;
  const std::vector<std::string> leftovers = app.remaining(true);
  check_unused_flags(leftovers, command.unused_settings());
  check_leftovers(leftovers, flags_of(flags), help, command.word_flag);
  return command.run(options, line);
}

}  // namespace

int run_command_line(int argc, const char* const* argv, StandardFiles standard) {
  CLI::App app("Completes a file of prompts with a language model.", "pagedinfer");
  const Page* page = nullptr;
  add_program_flags(app, page);
  app.footer(
      "\nExample:\n  pagedinfer run --input prompts.jsonl --output answers.jsonl --model DIR\n\n"
      "pagedinfer help run shows the flags of run.");
  std::vector<std::string> names;
  std::apply(
      [&](const auto&... command) {
        (add_subcommand_flags(
             *app.add_subcommand(std::string(command.name), std::string(command.help))),
         ...);
        (names.emplace_back(command.name), ...);
      },
      kCommands);
  const Words words = with_help_as_flag(Words(argv, argv + argc));
  const std::string first = words.size() > 1 ? words[1] : "-";
  std::optional<int> code;
  std::apply(
      [&](const auto&... command) {
        const auto run_if_named = [&](const auto& one) {
          if (one.name == first) code = run_command(one, app, words, standard);
        };
        (run_if_named(command), ...);
      },
      kCommands);
  if (code) return *code;
  check_subcommand(first, names);
  check_values(app, std::span(words).subspan(1));
  if (const std::optional<int> printed = parse(app, app, words, kTopHelp)) return *printed;
  check_leftovers(app.remaining(), {}, kTopHelp);
  if (page != nullptr) {
    std::cout << page->make(outline_program());
    return exit_code::kDone;
  }
  throw Error("expected a subcommand: pagedinfer run --input FILE (pagedinfer --help lists more)");
}

}  // namespace pagedinfer
