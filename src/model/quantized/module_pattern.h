#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/name_pattern.h"

namespace pagedinfer {

// An entry of the lists "targets" and "ignore": a name, or "re:" and a regular expression, which
// matches the names that begin with what it describes.
class ModulePattern {
 public:
  // Throws Error if the expression is invalid.
  explicit ModulePattern(std::string_view text) : text_(text) {
    constexpr std::string_view kPrefix = "re:";
    if (!text.starts_with(kPrefix)) return;
    expression_ = std::make_shared<const NamePattern>(text.substr(kPrefix.size()),
                                                      NamePattern::Extent::kBeginning);
  }

  bool is_expression() const { return expression_ != nullptr; }
  // Throws Error if finding out takes too long.
  bool matches(std::string_view name) const {
    return expression_ ? expression_->matches(name) : name == text_;
  }

 private:
  std::string text_;
  std::shared_ptr<const NamePattern> expression_ = {};
};

// How the names of a text model's modules begin, in a model for pictures or alone.
constexpr std::string_view kTextRoots[] = {"model.language_model.", "language_model.model.",
                                           "model."};

// The names that the lists may have for a module of the checkpoint: it was saved with one of these
// beginnings, and quantized with any.
inline std::vector<std::string> names_in_lists(const std::string& module) {
  std::vector<std::string> names = {module};
  for (const std::string_view root : kTextRoots) {
    if (!module.starts_with(root)) continue;
    for (const std::string_view other : kTextRoots) {
      names.push_back(std::string(other) + module.substr(root.size()));
    }
    break;
  }
  return names;
}

}  // namespace pagedinfer
