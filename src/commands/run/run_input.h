// Which lines of its input a run takes, and a second reading of the input.
#pragma once

#include <optional>
#include <string>

#include "io/interrupt.h"
#include "request/input_lines.h"
#include "settings/config.h"

namespace pagedinfer {

// The lines that a run takes.
LineChoice choice_of(const Config& config);

// Reads the input again from its beginning, to compare it with what an earlier run read.
class InputAgain {
 public:
  InputAgain(const Config& config, const Interrupt& interrupt);

  // The input's name in messages.
  const std::string& name() const { return name_; }
  // As InputLines. Throws Interrupted.
  std::optional<InputLine> next();

 private:
  const Interrupt& interrupt_;
  const std::string name_;
  InputLines lines_;
};

}  // namespace pagedinfer
