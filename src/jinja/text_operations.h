// What Python's str does with text, marks kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace pagedinfer::jinja {

// The first place of `part` in `text` from `begin` on, as std::string_view::find(). Takes time
// linear in both, as a template may look for anything; so does the next function.
size_t find_text(std::string_view text, std::string_view part, size_t begin = 0);

// The last place, as std::string_view::rfind().
size_t find_last_text(std::string_view text, std::string_view part, Budget& budget);

// strip(), lstrip(), rstrip(): the part of the text without the characters of `chars`, white space
// if there are none given.
Span stripped(std::string_view text, const std::optional<std::string_view>& chars, bool left,
              bool right, Budget& budget);

// replace(): at most `max_count` times, all if it is negative.
MarkedText replaced(const MarkedText& text, const MarkedText& old, const MarkedText& with,
                    int64_t max_count, Budget& budget);

enum class Case { kLower, kUpper, kTitle, kCapitalized, kSwapped, kFolded };
MarkedText in_case(const MarkedText& text, Case to, Budget& budget);

// The parts of the text between white space or, of split_at(), between separators; at most
// `max_splits` + 1 if that is not negative. The last ones are kept whole, or with `from_right` the
// first. REQUIRES: the separator is not empty.
std::vector<Span> split_words(std::string_view text, int64_t max_splits, bool from_right,
                              Budget& budget);
std::vector<Span> split_at(std::string_view text, std::string_view separator, int64_t max_splits,
                           bool from_right, Budget& budget);
// splitlines(): the ends of lines that Python knows.
std::vector<Span> split_lines(std::string_view text, bool keep_ends, Budget& budget);

MarkedText repeated(const MarkedText& text, int64_t count, Budget& budget);

// str.isupper() for kUpper, str.islower() for kLower.
bool is_text_in(Case which, std::string_view text, Budget& budget);

// Text with &, <, >, ' and " as HTML's references.
MarkedText escape_html(const MarkedText& text, Budget& budget);

}  // namespace pagedinfer::jinja
