#include "cli/flag_group.h"

#include <algorithm>
#include <cmath>

namespace pagedinfer {

namespace {

// Bytes of a unit: none, B, K to T alone or with a B, of 1,000, or with iB or i of 1,024.
std::optional<double> factor_of(std::string_view unit) {
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const bool names_bytes = unit.ends_with('B') || unit.ends_with('b');
  if (names_bytes) unit.remove_suffix(1);
  if (unit.empty()) return 1;
  const bool is_binary = unit.ends_with('i');
  if (is_binary) unit.remove_suffix(1);
  constexpr std::string_view kLarge = "KMGT", kSmall = "kmgt";
  if (unit.size() != 1) return std::nullopt;
  const size_t power = std::min(kLarge.find(unit[0]), kSmall.find(unit[0]));
  if (power == std::string_view::npos) return std::nullopt;
  return std::pow(is_binary ? 1024 : 1000, static_cast<double>(power + 1));
}

}  // namespace

std::string wrapped(std::string_view text) {
  constexpr size_t kHelpWidth = 100;
  constexpr size_t kWidth = kHelpWidth - kHelpColumn;
  std::string out;
  while (text.size() > kWidth) {
    const size_t space = text.rfind(' ', kWidth);
    out.append(text.substr(0, space)) += '\n';
    text.remove_prefix(space + 1);
  }
  return out.append(text);
}

void FlagGroup::add_shard(const char* flag, std::optional<Shard>& field, const char* value,
                          const char* help) {
  const auto read = [=, &field](const std::string& given) {
    Shard shard;
    const char* const end = given.data() + given.size();
    const auto [slash, error] = std::from_chars(given.data(), end, shard.index);
    bool good = error == std::errc() && slash != end && *slash == '/';
    if (good) {
      const auto [rest, count_error] = std::from_chars(slash + 1, end, shard.count);
      good = count_error == std::errc() && rest == end;
    }
    if (!good || shard.index < 0 || shard.index >= shard.count) {
      throw Error(fmt::format("{} {}: expected I/N with I from 0 to N - 1, as in 0/8", flag,
                              shortened(given)));
    }
    field = shard;
  };
  describe(app_.add_option_function<std::string>(flag, read), value, help);
}

void FlagGroup::add_bytes(const char* flag, std::optional<int64_t>& field, const char* value,
                          const char* help) {
  const auto read = [=, &field](const std::string& given) {
    const char* const end = given.data() + given.size();
    double number = 0;
    const auto [unit, error] = std::from_chars(given.data(), end, number, std::chars_format::fixed);
    const double bytes = number * factor_of(std::string_view(unit, end)).value_or(-1);
    if (error != std::errc() || !(bytes >= 0 && bytes < 9e18)) {
      throw Error(
          fmt::format("{} {}: expected bytes, as in 500MB, 1.5GB or 2GiB", flag, shortened(given)));
    }
    field = std::llround(bytes);
  };
  describe(app_.add_option_function<std::string>(flag, read), value, help);
}

}  // namespace pagedinfer
