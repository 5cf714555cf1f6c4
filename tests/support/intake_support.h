#pragma once

#include "intake/intake.h"
#include "io/interrupt.h"

namespace pagedinfer {

// The parts of an intake whose clocks stand still. The interrupt ends its lines.
inline IntakeParts intake_parts(InputLines& lines, const Tokenizer* tokenizer,
                                const ChatSettings& chat, Interrupt* interrupt = nullptr) {
  const auto no_clock = [] { return 0.0; };
  return {.lines = lines,
          .tokenizer = tokenizer,
          .chat = chat,
          .clock = no_clock,
          .thread_clock = no_clock,
          .end_lines = [interrupt] {
            if (interrupt != nullptr) interrupt->raise();
          }};
}

}  // namespace pagedinfer
