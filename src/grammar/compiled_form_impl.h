// The library's own types. Included by this folder only.
#pragma once

#include <xgrammar/xgrammar.h>

#include "grammar/compiled_form.h"

namespace pagedinfer {

struct CompiledForm::Impl {
  xgrammar::CompiledGrammar grammar;
  int num_tokens;
};

}  // namespace pagedinfer
