// Converts values of settings from and to text, checks them and stores them in a Config.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/refusal.h"
#include "settings/setting.h"

namespace pagedinfer {

// "--max-tokens"; the name itself if the row is of words without a flag.
std::string flag_of(const FlagRow& flag);

// Whether `name` is the flag or its letter ("-i").
bool is_flag_of(const FlagRow& flag, std::string_view name);

// Whether the flag may be given several times, each time with one value of its list.
bool takes_several(const FlagRow& flag);

// The first name of each value of a choice.
std::string names_of(const FlagRow& flag, std::string_view separator);

// The allowed values, as a message names what was expected.
std::string expected_of(const FlagRow& flag);
std::string expected_token_ids();

// Whether the flag allows a value of its kind: it is in the range, the text is UTF-8, and so on.
bool is_allowed(const FlagRow& flag, const Value& value);

// The value that is kept: -1 becomes 0 if the flag treats them alike.
Value normalized(const FlagRow& flag, Value value);

// Parses the value that the command line gives for a flag: "8" of "--threads 8". nullopt if it
// cannot be parsed or is not allowed. A switch has no value: any text, as a rule "", gives true.
std::optional<Value> read_text(const FlagRow& flag, std::string_view text);

// The value after the command line has given `text` for a flag. If the flag takes several values,
// this one is added to `before`. Throws Error if the text is not allowed.
Value value_after(const FlagRow& flag, std::string_view text, const Value& before);

// The value as a flag takes it and --help shows it; "none" if there is no value.
std::string text_of(const FlagRow& flag, const Value& value);

// Sets a value and, in a Config, marks it as given. REQUIRES: is_allowed(flag, value)
void give(const FlagOf<Config>& setting, const Value& value, Config& config);
void give(const FlagOf<Config>& setting, const Value& value, GivenSampling& sampling);
template <class Options>
void give(const FlagOf<Options>& flag, const Value& value, Options& options) {
  flag.field.set(options, normalized(flag, value));
}

// Sets the value that the text after a flag says; as value_after().
template <class Options>
void give_text(const FlagOf<Options>& flag, std::string_view text, Options& options) {
  give(flag, value_after(flag, text, flag.field.get(options)), options);
}
void give(std::string_view key, std::string_view text, Config& config);

// Overrides the settings of `params` that `from` gives.
void apply(const GivenSampling& from, SamplingParams& params);

// Throws Error naming the first flag whose value is not allowed.
void check_values(const Config& config);

}  // namespace pagedinfer
