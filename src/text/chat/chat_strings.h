// What templates do to strings, as Python does it.
#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// Without white space around it, Unicode's included: str.strip(). REQUIRES: `text` is UTF-8.
std::string_view strip(std::string_view text);

// Without newlines at its start, and at both ends: str.lstrip("\n"), str.strip("\n").
std::string_view strip_newlines_left(std::string_view text);
std::string_view strip_newlines(std::string_view text);

// What stands before the first, and behind the last `mark`; all of it if there is none.
std::string_view before_first(std::string_view text, std::string_view mark);
std::string_view after_last(std::string_view text, std::string_view mark);

// As a JSON string: json.dumps(text, ensure_ascii=False).
std::string python_json(std::string_view text);

}  // namespace pagedinfer
