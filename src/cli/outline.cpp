#include "cli/outline.h"

#include <algorithm>
#include <tuple>

#include "cli/command_flags.h"
#include "commands/command_table.h"

namespace pagedinfer {
namespace {

FlagOutline outline_of(const CLI::Option& option) {
  FlagOutline flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (flag.names.empty()) flag.names.push_back(option.get_name(true));
  flag.group = option.get_group();
  flag.help = option.get_description();
  std::ranges::replace(flag.help, '\n', ' ');
  // set_help() puts the default behind the placeholder.
  flag.value = option.get_option_text();
  const size_t bracket = flag.value.find(" [");
  if (bracket != flag.value.npos) {
    flag.unless_given = flag.value.substr(bracket + 2, flag.value.size() - bracket - 3);
    flag.value.resize(bracket);
  }
  return flag;
}

std::vector<FlagOutline> flags_in(const CLI::App& app) {
  std::vector<FlagOutline> flags;
  for (const CLI::Option* option : app.get_options()) flags.push_back(outline_of(*option));
  return flags;
}

template <class Options>
CommandOutline outline_of(const Command<Options>& command) {
  Options options;
  CLI::App app;
  add_subcommand_flags(app);
  add_flags(app, command, options, true);
  return {.name = std::string(command.name),
          .help = std::string(command.help),
          .flags = flags_in(app),
          .footer = std::string(command.footer)};
}

}  // namespace

std::vector<std::string> FlagOutline::values() const {
  std::vector<std::string> alternatives;
  for (size_t begin = 0; begin < value.size();) {
    const size_t end = std::min(value.find('|', begin), value.size());
    alternatives.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return alternatives;
}

Outline outline_program() {
  const Page* page = nullptr;
  CLI::App app;
  add_program_flags(app, page);
  Outline outline;
  outline.program.flags = flags_in(app);
  std::apply(
      [&](const auto&... command) { (outline.commands.push_back(outline_of(command)), ...); },
      kCommands);
  return outline;
}

}  // namespace pagedinfer
