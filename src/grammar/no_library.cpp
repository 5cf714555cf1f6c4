// Forms in a build without the library.
#include "core/check.h"
#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"

namespace pagedinfer {

struct FormCompiler::Impl {};
struct TokenMatcher::Impl {};

std::string grammar_problem() {
  return "this build keeps no form (it is built where CMake finds what "
         "scripts/install_xgrammar.sh makes, or with -DPAGEDINFER_GRAMMAR=ON)";
}

FormCompiler::FormCompiler(Vocabulary) {}
FormCompiler::~FormCompiler() = default;
Result<CompiledForm> FormCompiler::compile(const AnswerForm&) {
  return {"unsupported", grammar_problem()};
}
FormCompiler::Attempt FormCompiler::attempt(const AnswerForm& form, const CompileLimits&,
                                            const std::atomic<bool>&) {
  return {compile(form)};
}

// There is no compiled form to call these with.
int CompiledForm::num_words() const { return 0; }
int64_t CompiledForm::num_bytes() const { return 0; }
TokenMatcher::TokenMatcher(const CompiledForm&) {}
TokenMatcher::TokenMatcher(std::unique_ptr<Impl>) {}
TokenMatcher::~TokenMatcher() = default;
TokenMatcher::TokenMatcher(TokenMatcher&&) noexcept = default;
TokenMatcher& TokenMatcher::operator=(TokenMatcher&&) noexcept = default;
TokenMatcher TokenMatcher::fork() const { CHECK(false); }
bool TokenMatcher::accept(TokenId) { return false; }
void TokenMatcher::fill(std::span<uint32_t>) {}
bool TokenMatcher::is_complete() const { return false; }

}  // namespace pagedinfer
