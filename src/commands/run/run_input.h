// Which lines of its input a run takes, a second reading of them, and what the first ones say.
#pragma once

#include <optional>
#include <string>

#include "io/interrupt.h"
#include "load/model_plan.h"
#include "request/input_lines.h"
#include "settings/config.h"

namespace pagedinfer {

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

// Throws Error if a whole run begins, its input is a regular file of at least kFirstLines lines
// (not counting blank ones; --limit does not matter), and each of the first kFirstLines has no
// prompt, has one for which the model has no chat template or tokenizer, or lacks a column that a
// template reads: a flag is missing or wrong, and error records would not help. Reads no further
// than the first line that is not such a line. Throws Interrupted.
inline constexpr int kFirstLines = 100;
void check_first_lines(const Config& config, const ModelPlan& model, const Interrupt& interrupt);

// The configuration with --pack-weights auto replaced: by off if the input asks for so little that
// packing would take longer than it saves, else by on. Depends on the lines and the settings only.
// Reads no more lines than the decision needs. Standard input and pipes are not read and count as
// long. Throws Error if the input cannot be read.
Config with_packing_decided(const Config& config);

}  // namespace pagedinfer
