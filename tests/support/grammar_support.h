#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "grammar/form_compiler.h"

namespace pagedinfer {

// Whether this build keeps no answers in a form; if so, prints why the test cannot run.
inline bool is_skipped_without_grammar() {
  if (grammar_problem().empty()) return false;
  MESSAGE("SKIPPED: " << grammar_problem());
  return true;
}

// The form, compiled; null if it is free.
inline std::shared_ptr<const CompiledForm> compile_form(const AnswerForm& form,
                                                        FormCompiler& compiler) {
  if (form.is_free()) return nullptr;
  const Result<CompiledForm> compiled = compiler.compile(form);
  REQUIRE(compiled);
  return std::make_shared<const CompiledForm>(*compiled);
}

// A vocabulary of the 256 bytes.
inline std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

}  // namespace pagedinfer
