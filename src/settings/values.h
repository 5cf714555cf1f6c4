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

// Whether `name` is the setting's flag or its letter ("-i").
bool is_flag_of(const Setting& setting, std::string_view name);

// The first name of each value of a choice.
std::string names_of(const Setting& setting, std::string_view separator);

// The allowed values, as a message names what was expected.
std::string expected_of(const Setting& setting);
std::string expected_token_ids();

// Whether the setting allows a value of its kind: it is in the range, the text is UTF-8, and so on.
bool is_allowed(const Setting& setting, const Value& value);

// The value that the Config keeps: -1 becomes 0 if the setting treats them alike.
Value normalized(const Setting& setting, Value value);

// Parses the value that the command line gives for a flag: "8" of "--threads 8". nullopt if it
// cannot be parsed or is not allowed. A switch has no value: any text, as a rule "", gives true.
std::optional<Value> read_text(const Setting& setting, std::string_view text);

// The value as a flag takes it and --help shows it; "none" if there is no value.
std::string text_of(const Setting& setting, const Value& value);

// Sets a value and marks it as given. REQUIRES: is_allowed(setting, value)
void give(const Setting& setting, const Value& value, Config& config);
void give(const Setting& setting, const Value& value, GivenSampling& sampling);

// The same for the setting `key`, with the text after its flag. Throws Error if the text is not
// allowed. If the setting takes several values, this one is added.
void give(std::string_view key, std::string_view text, Config& config);

// Overrides the settings of `params` that `from` gives.
void apply(const GivenSampling& from, SamplingParams& params);

// Throws Error naming the first flag whose value is not allowed.
void check_values(const Config& config);

}  // namespace pagedinfer
