#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/template.h"

namespace pagedinfer {

// The day that "2024-07-26" or "26 Jul 2024" names; nullopt if it is no such day.
std::optional<jinja::DateTime> parse_chat_date(std::string_view text);

// "2024-07-26"
std::string text_of_date(const jinja::DateTime& date);

}  // namespace pagedinfer
