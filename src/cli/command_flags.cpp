#include "cli/command_flags.h"

#include "core/error.h"
#include "settings/table.h"

namespace pagedinfer {

void check_unused_flags(const std::vector<std::string>& leftovers,
                        std::span<const UnusedSetting> unused) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  for (const UnusedSetting& one : unused) {
    const Setting& setting = *find_setting(one.key);
    const bool is_letter = setting.letter != 0 && name == std::string{'-', setting.letter};
    if (name == flag_of(setting) || is_letter) {
      throw Error(fmt::format("{}: {}", name, one.instead));
    }
  }
}

}  // namespace pagedinfer
