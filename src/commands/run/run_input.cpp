#include "commands/run/run_input.h"

#include <fmt/format.h>

namespace pagedinfer {

LineChoice choice_of(const Config& config) {
  return {.limit = config.limit, .shard = config.shard.value_or(Shard{})};
}

InputAgain::InputAgain(const Config& config, const Interrupt& interrupt)
    : interrupt_(interrupt),
      name_(config.limit ? fmt::format("{} (--limit {})", config.input, *config.limit)
                         : config.input),
      lines_(config.input, choice_of(config), interrupt.fd()) {}

std::optional<InputLine> InputAgain::next() {
  const std::optional<InputLine> line = lines_.next();
  interrupt_.throw_if_happened();
  return line;
}

}  // namespace pagedinfer
