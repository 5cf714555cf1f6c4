// Forms to what masks are made of.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/answer_form.h"
#include "core/result.h"
#include "grammar/compiled_form.h"

namespace pagedinfer {

// Why no form can be kept by this build; "" if it can.
std::string grammar_problem();

// What compiling one form may take: steps, of which some 50 million take a second, and bytes of
// memory at once.
struct CompileLimits {
  int64_t max_steps;
  int64_t max_bytes;
};
// Beyond them a form is refused. Masks grow with the vocabulary.
inline CompileLimits limits_of_compiling(int num_tokens) {
  return {.max_steps = 600'000'000, .max_bytes = (int64_t{64} << 20) + int64_t{512} * num_tokens};
}

// Compiles forms for a vocabulary. May be called by several threads at once.
class FormCompiler {
 public:
  // The bytes of each token in the middle of a text, empty for tokens that are no text. Asked for
  // when the first form is compiled.
  using Vocabulary = std::function<std::vector<std::string>()>;
  explicit FormCompiler(Vocabulary vocabulary);
  ~FormCompiler();

  // A function of the form and the vocabulary. REQUIRES: the form is not free.
  Result<CompiledForm> compile(const AnswerForm& form);

  // The same within other limits. `gave_up`: the outcome is an error because it takes more than
  // them, or because `stopped` became true.
  struct Attempt {
    Result<CompiledForm> outcome;
    bool gave_up = false;
  };
  Attempt attempt(const AnswerForm& form, const CompileLimits& limits,
                  const std::atomic<bool>& stopped);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
