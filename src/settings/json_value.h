#pragma once

#include <simdjson.h>

#include <optional>
#include <vector>

#include "settings/setting.h"

namespace pagedinfer {

// The value of a setting in a line or in generation_config.json; nothing if it is not allowed,
// and then `wrong` is the value or the item of its list that is not.
std::optional<Value> read_json(const Setting& setting, simdjson::dom::element json,
                               simdjson::dom::element& wrong);

// The same of a list of token ids that is no setting; expected_token_ids() is what is allowed.
std::optional<std::vector<TokenId>> read_token_ids(simdjson::dom::element json,
                                                   simdjson::dom::element& wrong);

}  // namespace pagedinfer
