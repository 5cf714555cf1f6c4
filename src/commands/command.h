// A subcommand: its name, the flags that it takes, and what runs it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/variant.h"
#include "io/standard_files.h"
#include "settings/setting.h"

namespace pagedinfer {

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
  std::string_view example = {};                          // a command line, for --help
  std::string_view footer = {};                           // of --help, before the exit codes
  std::span<const FlagOf<Options>> (*flags)() = nullptr;  // its own; null: none
  // Where settings of `run` are stored. null: the subcommand takes none.
  Config& (*config)(Options&) = nullptr;
  // Whether the subcommand takes a setting. It takes no setting of `unused` in any case.
  bool (*takes)(const Setting&) = [](const Setting&) { return true; };
  std::span<const UnusedSetting> (*unused)() = nullptr;
  std::string_view variants_flag = {};  // the flag that takes several texts; "": none does
  std::string_view word_flag = {};      // whose value a word without a flag may be
  // Returns the exit code. Throws Error.
  int (*run)(Options&, const CommandLine&) = nullptr;

  std::span<const FlagOf<Options>> own_flags() const {
    return flags != nullptr ? flags() : std::span<const FlagOf<Options>>();
  }
  std::span<const UnusedSetting> unused_settings() const {
    return unused != nullptr ? unused() : std::span<const UnusedSetting>();
  }
  // An own flag hides a setting with the same flag.
  bool takes_setting(const Setting& setting) const {
    return config != nullptr && takes(setting) &&
           std::ranges::find(unused_settings(), setting.key, &UnusedSetting::key) ==
               unused_settings().end() &&
           std::ranges::find(own_flags(), setting.key, &FlagRow::key) == own_flags().end();
  }
};

}  // namespace pagedinfer
