// The library's own types. Included by this folder only.
#pragma once

#include <xgrammar/xgrammar.h>

#include <cstdint>

#include "grammar/compiled_form.h"

namespace pagedinfer {

struct CompiledForm::Impl {
  xgrammar::CompiledGrammar grammar;
  int num_tokens;
  int64_t num_bytes;
};

}  // namespace pagedinfer
