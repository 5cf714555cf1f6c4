#pragma once

#include <simdjson.h>

#include <optional>
#include <vector>

#include "settings/setting.h"

namespace pagedinfer {

// The value of a setting in a line or in generation_config.json. nullopt if it is not allowed; then
// `wrong` is the value, or the item of its list, that is not allowed.
std::optional<Value> read_json(const Setting& setting, simdjson::dom::element json,
                               simdjson::dom::element& wrong);

// The same for a list of token ids under a key that is not a setting. expected_token_ids() names
// what is allowed.
std::optional<std::vector<TokenId>> read_token_ids(simdjson::dom::element json,
                                                   simdjson::dom::element& wrong);

}  // namespace pagedinfer
