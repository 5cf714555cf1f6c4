#include "cli/command_flags.h"

#include "core/error.h"
#include "settings/table.h"

namespace pagedinfer {

CLI::Option* add_own_flag(CLI::App& app, std::string_view name, std::string_view value,
                          const std::function<void(const std::string&)>& give) {
  if (!name.starts_with('-')) {
    return app.add_option_function<std::vector<std::string>>(
        std::string(name), [give](const std::vector<std::string>& words) {
          for (const std::string& word : words) give(word);
        });
  }
  if (value.empty()) return app.add_flag_callback(std::string(name), [give] { give(""); });
  return app.add_option_function<std::string>(std::string(name), give);
}

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
