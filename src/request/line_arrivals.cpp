#include "request/line_arrivals.h"

#include <fmt/format.h>

#include <cmath>

#include "core/refusal.h"
#include "io/line_reader.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

constexpr std::string_view kKey = "arrival_s";
constexpr double kMaxPause = 7 * 86400;  // seconds; a longer pause is taken for a mistake

// Whether the key may be in the line. If not, the line need not be parsed.
bool may_have_key(std::string_view text) {
  constexpr std::string_view kQuoted = "\"arrival_s\"";
  return memmem(text.data(), text.size(), kQuoted.data(), kQuoted.size()) != nullptr;
}

}  // namespace

std::optional<double> read_arrival(dom::element value) {
  double time = -1;
  if (value.get(time) != simdjson::SUCCESS || !std::isfinite(time) || time < 0) return {};
  return time;
}

LineArrival LineArrivals::add(std::string_view text, int64_t number) {
  const std::optional<double> own = may_have_key(text) ? find(text) : std::nullopt;
  if (!own) return {.time = latest_};
  if (const std::string expected = expected_instead_of(*own); !expected.empty()) {
    return {.time = latest_,
            .fault = refusal(fmt::format("line {}: {}", number, kKey), fmt::format("{}", *own),
                             expected)};
  }
  latest_ = own;
  latest_line_ = number;
  return {.time = latest_};
}

// What is expected instead of `time` as the next time; "" if `time` is allowed.
std::string LineArrivals::expected_instead_of(double time) const {
  if (latest_ && time < *latest_) {
    return fmt::format("at least {}, which line {} says", *latest_, latest_line_);
  }
  const double last = latest_.value_or(0) + kMaxPause;
  if (time <= last) return "";
  const std::string before = latest_ ? fmt::format("what line {} says", latest_line_) : "the start";
  return fmt::format("at most {}, 7 days after {}", last, before);
}

// The time at the line's top level. If the key is repeated the last value counts, as for all keys.
std::optional<double> LineArrivals::find(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxLineBytes) return {};
  std::optional<double> found;
  dom::object object;
  if (json_.parse(text).get(object) == simdjson::SUCCESS) {
    for (const auto [name, value] : object) {
      if (name == kKey) found = read_arrival(value);
    }
  }
  json_.done(text);
  return found;
}

}  // namespace pagedinfer
