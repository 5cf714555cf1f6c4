#include "text/chat/chat_date.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>

namespace pagedinfer {
namespace {

constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// A number of digits alone; -1 if there is none.
int number_of(std::string_view text, size_t min_digits, size_t max_digits) {
  int number = -1;
  if (text.size() < min_digits || text.size() > max_digits) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace

std::optional<jinja::DateTime> parse_chat_date(std::string_view text) {
  jinja::DateTime date = {.year = -1, .month = -1, .day = -1};
  if (text.size() == 10 && text[4] == '-' && text[7] == '-') {
    date.year = number_of(text.substr(0, 4), 4, 4);
    date.month = number_of(text.substr(5, 2), 2, 2);
    date.day = number_of(text.substr(8), 2, 2);
  } else if (const size_t space = text.find(' ');
             text.size() == space + 9 && text[space + 4] == ' ') {
    const auto* const month = std::ranges::find(kMonths, text.substr(space + 1, 3));
    if (month != std::end(kMonths)) date.month = static_cast<int>(month - kMonths) + 1;
    date.day = number_of(text.substr(0, space), 1, 2);
    date.year = number_of(text.substr(space + 5), 4, 4);
  }
  if (date.year < 1 || date.month < 1 || date.day < 1) return std::nullopt;
  const std::chrono::year_month_day day(std::chrono::year(date.year),
                                        std::chrono::month(unsigned(date.month)),
                                        std::chrono::day(unsigned(date.day)));
  return day.ok() ? std::optional(date) : std::nullopt;
}

std::string text_of_date(const jinja::DateTime& date) {
  return fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
}

}  // namespace pagedinfer
