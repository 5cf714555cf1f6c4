#include "model/quantized/module_pattern.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/shortened.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kPrefix = "re:";

// Matching takes a time that is polynomial in the length of the name, and a stack that the length
// of the expression bounds, but for these limits.
constexpr auto kSyntax = std::regex::ECMAScript | std::regex_constants::__polynomial;
constexpr size_t kMaxLength = 500;
constexpr int kMaxLooks = 2;  // ahead: "(?=" and "(?!", which may be nested

bool is_within_limits(std::string_view expression) {
  int looks = 0;
  for (const std::string_view look : {"(?=", "(?!"}) {
    for (size_t at = 0; (at = expression.find(look, at)) != std::string_view::npos; ++at) ++looks;
  }
  // A number of repetitions is a copy of what is repeated for each.
  const bool repeats = expression.find('{') != std::string_view::npos;
  return expression.size() <= kMaxLength && looks <= kMaxLooks && !repeats;
}

}  // namespace

ModulePattern::ModulePattern(std::string_view text)
    : text_(text), is_expression_(text.starts_with(kPrefix)) {
  if (!is_expression_) return;
  const std::string expression = text_.substr(kPrefix.size());
  try {
    if (is_within_limits(expression)) {
      expression_ = std::regex(expression, kSyntax);
      return;
    }
  } catch (const std::regex_error&) {
  }
  throw Error(fmt::format("'{}' is not a regular expression that can be read", shortened(text)));
}

bool ModulePattern::matches(const std::string& name) const {
  if (!is_expression_) return name == text_;
  return std::regex_search(name, expression_, std::regex_constants::match_continuous);
}

}  // namespace pagedinfer
