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

std::string help_footer(std::string_view command, std::string_view example, std::string_view text) {
  std::string codes;
  for (const ExitCodeRow& row : kExitCodes) {
    if (row.command != command) continue;
    codes += fmt::format("{} {} {}", codes.empty() ? "Exit codes:" : ",", row.code, row.meaning);
  }
  if (!codes.empty()) codes = "\n" + wrapped(codes + ".", kHelpWidth);
  return fmt::format("\nExample:\n  {}\n\n{}{}", example, wrapped(text, kHelpWidth), codes);
}

}  // namespace pagedinfer
