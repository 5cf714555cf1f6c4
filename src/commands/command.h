// A subcommand: its name, the flags that it takes, and what runs it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/output_paths.h"
#include "commands/variant.h"
#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"
#include "io/standard_files.h"
#include "settings/setting.h"

namespace pagedinfer {

// A flag that only one subcommand has. `Options` is the type of its command line. A name without
// dashes is for words without a flag, of which there may be several.
template <class Options>
struct CommandFlag {
  std::string_view group, flag;
  std::string_view value;         // placeholder in --help; "": the flag has no value
  std::string_view unless_given;  // the default
  std::string_view help, when;    // sentences, as in a Setting
  // Stores the text after the flag. Throws Error if it is not allowed.
  void (*give)(const CommandFlag& flag, std::string_view text, Options& options);
};

template <class Options>
Error refused(const CommandFlag<Options>& flag, std::string_view text, std::string_view expected) {
  return Error(refusal(flag.flag, shortened(text), expected));
}

// The number after the flag. Throws Error if `range` does not contain it.
template <class Options, class Range>
auto read_in_range(const CommandFlag<Options>& flag, std::string_view text, const Range& range) {
  const auto number = read_number<decltype(range.from)>(text);
  if (!number || !range.contains(*number)) throw refused(flag, text, text_of(range));
  return *number;
}

// What CommandFlag::give is for most flags: a switch is on, a text is any, a path is not empty.
template <auto kMember, class Options>
void give_switch(const CommandFlag<Options>&, std::string_view, Options& options) {
  options.*kMember = true;
}
template <auto kMember, class Options>
void give_text(const CommandFlag<Options>&, std::string_view text, Options& options) {
  options.*kMember = text;
}
template <auto kMember, class Options>
void give_path(const CommandFlag<Options>& flag, std::string_view text, Options& options) {
  if (text.empty()) throw refused(flag, text, flag.value == "FILE|-" ? "a file, or -" : "a file");
  options.*kMember = text;
}
// The path of a file that is written.
template <auto kMember, class Options>
void give_output(const CommandFlag<Options>& flag, std::string_view text, Options& options) {
  check_output_name(flag.flag, text);
  give_path<kMember>(flag, text, options);
}

// A setting of `run` that a subcommand does not take, and what to do instead.
struct UnusedSetting {
  std::string_view key, instead;
};

// What a subcommand knows of its command line besides its flags.
struct CommandLine {
  std::string text = {};  // as a shell would take it
  StandardFiles standard = {};
  // The texts after Command::variants_flag; nullopt: it was not given.
  std::optional<std::vector<std::string>> variants = {};
  // The configuration that such a text describes: `common`, overridden by the text's flags. `flag`
  // is the flag before the text. Throws Error naming `flag` and the text if the text has other
  // words than flags that may differ.
  std::function<Variant(std::string_view flag, const std::string& text, const Config& common,
                        const VariantRules& rules)>
      read_variant = {};
};

template <class Options>
struct Command {
  std::string_view name, help;
  std::string_view example = {};                               // a command line, for --help
  std::string_view footer = {};                                // of --help, before the exit codes
  std::span<const CommandFlag<Options>> (*flags)() = nullptr;  // its own; null: none
  // Where settings of `run` are stored. null: the subcommand takes none.
  Config& (*config)(Options&) = nullptr;
  // Whether the subcommand takes a setting. It takes no setting of `unused` in any case.
  bool (*takes)(const Setting&) = [](const Setting&) { return true; };
  std::span<const UnusedSetting> (*unused)() = nullptr;
  std::string_view variants_flag = {};  // the flag that takes several texts; "": none does
  std::string_view word_flag = {};      // whose value a word without a flag may be
  // Returns the exit code. Throws Error.
  int (*run)(Options&, const CommandLine&) = nullptr;

  std::span<const CommandFlag<Options>> own_flags() const {
    return flags != nullptr ? flags() : std::span<const CommandFlag<Options>>();
  }
  std::span<const UnusedSetting> unused_settings() const {
    return unused != nullptr ? unused() : std::span<const UnusedSetting>();
  }
  // An own flag hides a setting with the same flag.
  bool takes_setting(const Setting& setting, std::string_view flag) const {
    return config != nullptr && takes(setting) &&
           std::ranges::find(unused_settings(), setting.key, &UnusedSetting::key) ==
               unused_settings().end() &&
           std::ranges::find(own_flags(), flag, &CommandFlag<Options>::flag) == own_flags().end();
  }
};

}  // namespace pagedinfer
