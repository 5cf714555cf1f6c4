#include "cli/flag_help.h"

namespace pagedinfer {
namespace {

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

}  // namespace

void set_help(CLI::Option& option, const std::string& group, const std::string& value,
              std::string_view help) {
  option.group(group)->option_text(value)->description(wrapped(help));
}

}  // namespace pagedinfer
