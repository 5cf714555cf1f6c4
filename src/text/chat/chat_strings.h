// The string functions of templates, with Python's results.
#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// str.strip(): removes white space at both ends, Unicode's included. REQUIRES: `text` is UTF-8.
std::string_view strip(std::string_view text);

// str.lstrip("\n") and str.strip("\n").
std::string_view strip_newlines_left(std::string_view text);
std::string_view strip_newlines(std::string_view text);

// The text before the first and behind the last `mark`; all of it if there is no mark.
std::string_view before_first(std::string_view text, std::string_view mark);
std::string_view after_last(std::string_view text, std::string_view mark);

// json.dumps(text, ensure_ascii=False): a JSON string.
std::string python_json(std::string_view text);

}  // namespace pagedinfer
