#include "cli/flag_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/error.h"
#include "core/near_name.h"
#include "core/refusal.h"
#include "settings/foreign_names.h"

namespace pagedinfer {

namespace {

// Our name for a flag of another program; nullopt if this command has no such flag.
std::optional<std::string> flag_for_foreign(std::string_view flag,
                                            const std::vector<std::string>& known) {
  const auto spelt = [](std::string_view text, char from, char to) {
    std::string result(text.substr(std::min(text.find_first_not_of('-'), text.size())));
    std::ranges::replace(result, from, to);
    return result;
  };
  const std::string name = spelt(flag, '-', '_');
  const auto* const found = std::ranges::find(kForeignNames, name, &ForeignName::name);
  const bool is_letter = name.size() == 1;
  if (found == std::end(kForeignNames) || (is_letter && flag.starts_with("--"))) {
    return std::nullopt;
  }
  std::string ours = "--" + spelt(found->ours, '_', '-');
  if (std::ranges::find(known, ours) == known.end()) return std::nullopt;
  return ours;
}

}  // namespace

void check_leftovers(const std::vector<std::string>& leftovers,
                     const std::vector<std::string>& known, const std::string& help,
                     std::string_view word_flag) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  if (const std::optional<std::string> ours = flag_for_foreign(name, known)) {
    throw Error(fmt::format("{}: unknown; here it is {}. See {}", shortened(name), *ours, help));
  }
  if (const std::optional<std::string> meant = near_name(name, known)) {
    throw Error(fmt::format("{}: unknown; did you mean {}? See {}", shortened(name), *meant, help));
  }
  if (!word_flag.empty() && !name.starts_with('-')) {
    throw Error(fmt::format("{}: is a word without a flag; {} may be missing before it. See {}",
                            shortened(leftovers[0]), word_flag, help));
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

void check_repeated(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    // get_name() is empty for a flag that --help does not show.
    const bool takes_one = option->get_items_expected_max() == 1 && !option->get_lnames().empty();
    if (takes_one && option->count() > 1) {
      throw Error(fmt::format("--{}: given {} times, expected once", option->get_lnames().front(),
                              option->count()));
    }
  }
}

}  // namespace pagedinfer
