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

// Forms that are kept, those that requests need not counted.
constexpr size_t kMaxFormBytes = size_t{128} << 20;

// Compiles forms and keeps the latest, and all of which there are copies. Every method may be
// called by several threads at once.
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
  // That the kept forms take: at most max_bytes, unless there are copies of more.
  size_t num_bytes() const;
  bool is_full() const;  // whether they take more

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
