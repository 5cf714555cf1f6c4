// What a subcommand beside `run` takes: flags of its own, and which of the settings of `run`.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/range.h"
#include "core/read_number.h"
#include "core/refusal.h"
#include "core/shortened.h"

namespace pagedinfer {

// A flag of one subcommand alone, whose command line is an `Options`.
template <class Options>
struct CommandFlag {
  std::string_view group, flag;
  std::string_view value;         // as --help shows it; "": it stands alone
  std::string_view unless_given;  // the default
  std::string_view help, when;    // sentences, as those of a Setting
  // Takes what stands behind the flag. Throws Error if that is not allowed.
  void (*give)(const CommandFlag& flag, std::string_view text, Options& options);
};

template <class Options>
Error refused(const CommandFlag<Options>& flag, std::string_view text, std::string_view expected) {
  return Error(refusal(flag.flag, shortened(text), expected));
}

// The number that stands behind the flag. Throws Error if `range` does not contain it.
template <class Options>
int64_t read_in_range(const CommandFlag<Options>& flag, std::string_view text,
                      const IntegerRange& range) {
  const auto number = read_number<int64_t>(text);
  if (!number || !range.contains(*number)) throw refused(flag, text, text_of(range));
  return *number;
}
template <class Options>
double read_in_range(const CommandFlag<Options>& flag, std::string_view text,
                     const NumberRange& range) {
  const auto number = read_number<double>(text);
  if (!number || !range.contains(*number)) throw refused(flag, text, text_of(range));
  return *number;
}

// A setting of `run` that a subcommand has no use for, and what to do instead.
struct UnusedSetting {
  std::string_view key, instead;
};

}  // namespace pagedinfer
