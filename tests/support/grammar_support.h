#pragma once

#include <doctest/doctest.h>

#include "grammar/form_compiler.h"

namespace pagedinfer {

// Whether this build keeps no answers in a form; if so, prints why the test cannot run.
inline bool is_skipped_without_grammar() {
  if (grammar_problem().empty()) return false;
  MESSAGE("SKIPPED: " << grammar_problem());
  return true;
}

}  // namespace pagedinfer
