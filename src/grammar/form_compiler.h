// Forms to what masks are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/answer_form.h"
#include "core/request.h"
#include "grammar/compiled_form.h"

namespace pagedinfer {

// Why no form can be kept by this build; "" if it can.
std::string grammar_problem();

// Compiles forms and keeps the latest. Every method may be called by several threads at once.
class FormCompiler {
 public:
  // The bytes of each token in the middle of a text, empty for tokens that are no text. Asked for
  // when the first form is compiled.
  using Vocabulary = std::function<std::vector<std::string>()>;
  FormCompiler(Vocabulary vocabulary, size_t max_bytes);
  ~FormCompiler();

  // The compiled form, or why there is none. A form that another thread compiles at the moment is
  // waited for. REQUIRES: the form is not free.
  std::variant<CompiledForm, RequestError> compile(const AnswerForm& form);

  // Forms that were compiled, not found.
  int64_t num_compiled() const;
  size_t num_bytes() const;  // that the kept forms take, at most max_bytes

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
