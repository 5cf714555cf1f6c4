// Numbers as Python reads and writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer::jinja {

// int(text, base). Nothing if it is no integer; throws TemplateError if it has more than 64 bits.
std::optional<int64_t> parse_integer(std::string_view text, int base);

// float(text). Nothing if it is no number.
std::optional<double> parse_float(std::string_view text);

// repr(number): the fewest digits that read back as the same number.
std::string float_repr(double number);

// int(number), towards zero. Throws TemplateError where Python fails or needs more than 64 bits.
int64_t truncated(double number);

// round(number, digits).
double rounded(double number, int64_t digits);

}  // namespace pagedinfer::jinja
