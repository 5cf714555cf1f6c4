#include "cli/command_flags.h"

#include "core/error.h"
#include "settings/table.h"

namespace pagedinfer {

void check_unused_flags(const std::vector<std::string>& leftovers,
                        std::span<const UnusedSetting> unused) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  for (const UnusedSetting& one : unused) {
    if (is_flag_of(*find_setting(one.key), name)) {
      throw Error(fmt::format("{}: {}", name, one.instead));
    }
  }
}

}  // namespace pagedinfer
