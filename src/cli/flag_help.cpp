#include "cli/flag_help.h"

#include <fmt/format.h>

#include "core/exit_codes.h"

namespace pagedinfer {
namespace {

constexpr size_t kHelpWidth = 100;

std::string wrapped(std::string_view text, size_t width) {
  std::string out;
  while (text.size() > width) {
    const size_t space = text.rfind(' ', width);
    out.append(text.substr(0, space)) += '\n';
    text.remove_prefix(space + 1);
  }
  return out.append(text);
}

}  // namespace

void set_help(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help) {
  option.group(group)->option_text(value)->description(wrapped(help, kHelpWidth - kHelpColumn));
}

std::string exit_codes_help(std::string_view command) {
  std::string text = "Exit codes:";
  for (const ExitCodeRow& row : kExitCodes) {
    if (row.command != command) continue;
    text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", row.code, row.meaning);
  }
  return "\n" + wrapped(text + ".", kHelpWidth);
}

}  // namespace pagedinfer
