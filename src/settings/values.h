// Converts values of settings from and to text, checks them and stores them in a Config.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/refusal.h"
#include "settings/setting.h"

namespace pagedinfer {

// "--max-tokens"
std::string flag_of(const Setting& setting);

// Whether this is how a command line names the setting: its flag or its letter ("-i").
bool is_flag_of(const Setting& setting, std::string_view name);

// The names of a choice, of each value the first one.
std::string names_of(const Setting& setting, std::string_view separator);

// What a message says was expected.
std::string expected_of(const Setting& setting);
std::string expected_token_ids();

// Whether a value of the right kind may be the setting's: in its range, a text in UTF-8, and so on.
bool is_allowed(const Setting& setting, const Value& value);

// A value as the Config keeps it: -1 is 0 where it means that.
Value normalized(const Setting& setting, Value value);

// Parses the value that the command line gives for a flag: "8" of "--threads 8". nullopt if it
// cannot be parsed or is not allowed. A switch has no value: any text, as a rule "", gives true.
std::optional<Value> read_text(const Setting& setting, std::string_view text);

// As a flag takes it and --help shows it; "none" where there is no value.
std::string text_of(const Setting& setting, const Value& value);

// Sets what was asked for. REQUIRES: is_allowed(setting, value)
void give(const Setting& setting, const Value& value, Config& config);
void give(const Setting& setting, const Value& value, GivenSampling& sampling);

// The same by key and with what stands behind the flag. Throws Error if that is not allowed. Of a
// setting that takes several values this one is added.
void give(std::string_view key, std::string_view text, Config& config);

// Overrides what `from` gives.
void apply(const GivenSampling& from, SamplingParams& params);

// Throws Error naming the first flag whose value is not allowed.
void check_values(const Config& config);

}  // namespace pagedinfer
