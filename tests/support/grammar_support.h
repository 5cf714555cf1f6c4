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

// Compiles the form of the request, unless it is free.
inline void compile_form_of(Request& request, FormCompiler& compiler) {
  if (request.sampling.form.is_free()) return;
  const Result<CompiledForm> compiled = compiler.compile(request.sampling.form);
  REQUIRE(compiled);
  request.compiled_form = std::make_shared<const CompiledForm>(*compiled);
  for (Request& other : request.more) other.compiled_form = request.compiled_form;
}

// A vocabulary of the 256 bytes.
inline std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

}  // namespace pagedinfer
