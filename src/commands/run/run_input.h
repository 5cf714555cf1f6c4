// Which lines of its input a run takes, and a second reading of them.
#pragma once

#include <optional>
#include <string>

#include "io/interrupt.h"
#include "request/input_lines.h"
#include "settings/config.h"

namespace pagedinfer {

// The lines that a run takes.
LineChoice choice_of(const Config& config);

// Reads the input from its beginning once more, to compare it with what an earlier run has read.
class InputAgain {
 public:
  InputAgain(const Config& config, const Interrupt& interrupt);

  // As messages call it.
  const std::string& name() const { return name_; }
  // As InputLines. Throws Interrupted.
  std::optional<InputLine> next();

 private:
  const Interrupt& interrupt_;
  const std::string name_;
  InputLines lines_;
};

}  // namespace pagedinfer
