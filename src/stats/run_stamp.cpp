#include "stats/run_stamp.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace pagedinfer {
namespace {

struct Calendar {
  std::chrono::year_month_day day;
  std::chrono::hh_mm_ss<std::chrono::milliseconds> time;
};

Calendar calendar_of(double seconds) {
  const std::chrono::sys_time<std::chrono::milliseconds> moment(
      std::chrono::milliseconds(std::llround(1e3 * seconds)));
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  return {std::chrono::year_month_day(day), std::chrono::hh_mm_ss(moment - day)};
}

// Formats year, month, day, hour, minute, second and millisecond, in this order.
std::string written(const char* form, const Calendar& at) {
  return fmt::format(fmt::runtime(form), int(at.day.year()), unsigned(at.day.month()),
                     unsigned(at.day.day()), at.time.hours().count(), at.time.minutes().count(),
                     at.time.seconds().count(), at.time.subseconds().count());
}

}  // namespace

RunStamp make_run_stamp(double began, uint64_t random) {
  const std::string when = written("{:04}{:02}{:02}T{:02}{:02}{:02}Z", calendar_of(began));
  return {.id = fmt::format("{}-{:016x}", when, random), .began = began};
}

std::string time_of_day(double seconds) {
  return written("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", calendar_of(seconds));
}

}  // namespace pagedinfer
