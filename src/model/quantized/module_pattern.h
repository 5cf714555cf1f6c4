#pragma once

#include <regex>
#include <string>
#include <string_view>

namespace pagedinfer {

// An entry of the lists "targets" and "ignore": a name, or "re:" and a regular expression, which
// matches the names that begin with what it describes.
class ModulePattern {
 public:
  // Throws Error if the expression is invalid or too large.
  explicit ModulePattern(std::string_view text);

  bool is_expression() const { return is_expression_; }
  bool matches(const std::string& name) const;

 private:
  std::string text_;
  bool is_expression_;
  std::regex expression_ = {};
};

}  // namespace pagedinfer
