#pragma once

#include <stdexcept>
#include <string>

namespace pagedinfer::jinja {

// A template cannot be parsed, or cannot be rendered with some variables: it is not an Error, for
// the run goes on with other lines.
struct TemplateError : std::runtime_error {
  enum class Reason {
    kFailed,  // as Python would fail
    kRaised,  // the template called raise_exception(): its message is all there is
    kLimit,   // too many steps, too much text, too deep
  };

  explicit TemplateError(const std::string& message, int at_line = 0,
                         Reason its_reason = Reason::kFailed)
      : std::runtime_error(message), line(at_line), reason(its_reason) {}

  int line;  // of the template, from 1; 0 = not known
  Reason reason;
};

}  // namespace pagedinfer::jinja
