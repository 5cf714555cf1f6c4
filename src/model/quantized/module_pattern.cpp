#include "model/quantized/module_pattern.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/shortened.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kPrefix = "re:";
constexpr size_t kMaxLength = 2000;

// Takes a time that is polynomial in the length of the name, whatever the expression.
constexpr auto kSyntax = std::regex::ECMAScript | std::regex_constants::__polynomial;

}  // namespace

ModulePattern::ModulePattern(std::string_view text)
    : text_(text), is_expression_(text.starts_with(kPrefix)) {
  if (!is_expression_) return;
  try {
    if (text.size() > kMaxLength) throw std::regex_error(std::regex_constants::error_complexity);
    expression_ = std::regex(text_.substr(kPrefix.size()), kSyntax);
  } catch (const std::regex_error&) {
    throw Error(fmt::format("'{}' is not a regular expression that can be read", shortened(text)));
  }
}

bool ModulePattern::matches(const std::string& name) const {
  if (!is_expression_) return name == text_;
  return std::regex_search(name, expression_, std::regex_constants::match_continuous);
}

}  // namespace pagedinfer
