#include "model/quantized/module_pattern.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kPrefix = "re:";

}  // namespace

ModulePattern::ModulePattern(std::string_view text) : text_(text) {
  if (!text.starts_with(kPrefix)) return;
  expression_ = std::make_shared<const NamePattern>(text.substr(kPrefix.size()),
                                                    NamePattern::Extent::kBeginning);
}

bool ModulePattern::matches(std::string_view name) const {
  return expression_ ? expression_->matches(name) : name == text_;
}

}  // namespace pagedinfer
