#include "cli/flag_group.h"

namespace pagedinfer {

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
      throw Error(
          fmt::format("{} {}: expected I/N with I from 0 to N - 1, as in 0/8", flag, given));
    }
    field = shard;
  };
  describe(app_.add_option_function<std::string>(flag, read), value, help);
}

}  // namespace pagedinfer
