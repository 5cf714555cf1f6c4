#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/pages.h"

namespace pagedinfer {
namespace {

// What may stand for a value.
struct Candidates {
  std::vector<std::string> words = {};
  bool files = false, folders = false;
};

Candidates candidates_of(const FlagOutline& flag) {
  Candidates found;
  for (const std::string& value : flag.values()) {
    if (value.starts_with("FILE")) {
      found.files = true;
    } else if (value == "DIR") {
      found.folders = true;
    } else if (std::ranges::none_of(value, [](unsigned char c) { return std::isupper(c) != 0; })) {
      found.words.push_back(value);
    }
  }
  return found;
}

bool is_flag(const FlagOutline& flag) { return flag.names.front().starts_with('-'); }

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> command_names(const Outline& outline) {
  std::vector<std::string> names;
  for (const CommandOutline& command : outline.commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> flag_names(const CommandOutline& command) {
  std::vector<std::string> names;
  for (const FlagOutline& flag : command.flags) {
    if (is_flag(flag)) names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

// The first sentence, without the quotes of a shell.
std::string short_help(std::string_view help) {
  const size_t dot = help.find(". "), semicolon = help.find("; ");
  std::string text(help.substr(0, std::min(dot, semicolon)));
  if (text.ends_with('.')) text.pop_back();
  std::erase(text, '\'');
  return text;
}

// --- bash ---

std::string bash_values(const CommandOutline& command) {
  std::string cases;
  for (const FlagOutline& flag : command.flags) {
    if (!is_flag(flag) || flag.value.empty()) continue;
    const Candidates found = candidates_of(flag);
    std::string action;
    if (!found.words.empty()) action += fmt::format(" words='{}'", joined(found.words));
    if (found.files) action += " kind=-f";
    if (found.folders) action += " kind=-d";
    cases += fmt::format("    {}:{}){} ;;\n", command.name,
                         fmt::join(flag.names, fmt::format("|{}:", command.name)),
                         action.empty() ? " return" : action);
  }
  return cases;
}

// --- zsh ---

std::string zsh_escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const FlagOutline& flag) {
  const Candidates found = candidates_of(flag);
  std::string action = found.files ? "_files" : found.folders ? "_files -/" : " ";
  if (!found.words.empty()) {
    const std::string words = fmt::format("({})", joined(found.words));
    action = action == " "
                 ? words
                 : fmt::format("{{_alternative \"word\\:\\:{}\" \"file\\:\\:{}\"}}", words, action);
  }
  return fmt::format(":{}:{}", zsh_escaped(flag.value, ":"), action);
}

std::string zsh_argument(const FlagOutline& flag) {
  if (!is_flag(flag)) return "'*:FILE:_files'";
  const std::string help = zsh_escaped(short_help(flag.help), "[]:");
  const std::string value = flag.value.empty() ? "" : zsh_action(flag);
  // A flag with a value may be given as one word with "=" too.
  const std::string equals = flag.value.empty() ? "" : "=";
  std::string text;
  for (const std::string& name : flag.names) {
    text += fmt::format("{}'{}{}[{}]{}'", text.empty() ? "" : " ", name,
                        name.starts_with("--") ? equals : "", help, value);
  }
  return text;
}

// --- fish ---

std::string fish_line(const std::string& condition, const FlagOutline& flag) {
  std::string names;
  for (const std::string& name : flag.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  Candidates found = candidates_of(flag);
  if (found.folders) found.words.emplace_back("(__fish_complete_directories)");
  std::string value;
  if (!flag.value.empty()) value = found.files ? " -r -F" : " -x";
  if (!found.words.empty()) value += fmt::format(" -a \"{}\"", joined(found.words));
  return fmt::format("complete -c pagedinfer -n '{}'{}{} -d '{}'\n", condition, names, value,
                     short_help(flag.help));
}

}  // namespace

std::string bash_completion(const Outline& outline) {
  std::string cases, flags;
  for (const CommandOutline& command : outline.commands) {
    cases += bash_values(command);
    const bool takes_files =
        std::ranges::any_of(command.flags, [](const FlagOutline& flag) { return !is_flag(flag); });
    flags += fmt::format("      {}) words='{}'{} ;;\n", command.name, joined(flag_names(command)),
                         takes_files ? " kind=-f" : "");
  }
  return fmt::format(R"(# Completion of pagedinfer for bash.
_pagedinfer() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local words='' kind='' command=''
  # "--flag=value" comes as three words.
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $before == '=' ]]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  COMPREPLY=()
  if ((COMP_CWORD > 1)) && [[ ${{COMP_WORDS[1]}} != -* ]]; then command=${{COMP_WORDS[1]}}; fi
  case "$command:$before" in
{}{}    *)
    case "$command" in
      '') words='{} {}' ;;
{}    esac
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ -n $kind ]]; then
    compopt -o filenames
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen "$kind" -- "$word")
  fi
}}
complete -F _pagedinfer pagedinfer
)",
                     bash_values(outline.program), cases, joined(command_names(outline)),
                     joined(flag_names(outline.program)), flags);
}

std::string zsh_completion(const Outline& outline) {
  std::string commands, cases;
  const auto arguments_of = [](const CommandOutline& command) {
    std::string arguments;
    for (const FlagOutline& flag : command.flags) {
      arguments += fmt::format(" \\\n        {}", zsh_argument(flag));
    }
    return arguments;
  };
  for (const CommandOutline& command : outline.commands) {
    commands += fmt::format("    '{}:{}'\n", command.name, short_help(command.help));
    cases +=
        fmt::format("    {})\n      _arguments{}\n      ;;\n", command.name, arguments_of(command));
  }
  return fmt::format(R"(#compdef pagedinfer
# Completion of pagedinfer for zsh.
_pagedinfer() {{
  local -a commands=(
{}  )
  ((CURRENT > 2)) || _describe command commands
  if ((CURRENT == 2)) || [[ $words[2] == -* ]]; then
    _arguments{}
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}
_pagedinfer "$@"
)",
                     commands, arguments_of(outline.program), cases);
}

std::string fish_completion(const Outline& outline) {
  std::string text = "# Completion of pagedinfer for fish.\ncomplete -c pagedinfer -f\n";
  for (const FlagOutline& flag : outline.program.flags) {
    text += fish_line("__fish_use_subcommand", flag);
  }
  for (const CommandOutline& command : outline.commands) {
    text += fmt::format("complete -c pagedinfer -n __fish_use_subcommand -a {} -d '{}'\n",
                        command.name, short_help(command.help));
    const std::string condition = fmt::format("__fish_seen_subcommand_from {}", command.name);
    for (const FlagOutline& flag : command.flags) {
      text += is_flag(flag) ? fish_line(condition, flag)
                            : fmt::format("complete -c pagedinfer -n '{}' -F\n", condition);
    }
  }
  return text;
}

}  // namespace pagedinfer
