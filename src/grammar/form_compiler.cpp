#include "grammar/form_compiler.h"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/token_mask.h"
#include "grammar/compiled_form_impl.h"
#include "grammar/form_check.h"
#include "grammar/library_messages.h"
#include "grammar/library_work.h"
#include "grammar/schema_grammar.h"

namespace pagedinfer {

namespace {

xgrammar::Grammar grammar_of(const CheckedForm& form, bool whitespace) {
  using xgrammar::Grammar;
  if (form.schema) return grammar_of_schema(form.schema->text, whitespace);
  if (form.calls.empty()) return Grammar::FromEBNF(form.rules);
  const Grammar end = Grammar::FromEBNF(R"(root ::= "}")");
  std::vector<Grammar> calls;
  for (const CheckedCall& call : form.calls) {
    calls.push_back(Grammar::Concat(
        {Grammar::FromEBNF(call.before), grammar_of_schema(call.schema.text, whitespace), end}));
  }
  return calls.size() == 1 ? calls[0] : Grammar::Union(calls);
}

// Equal rules of a grammar share their masks if they can: the library cannot hash rules that lead
// to long repetitions.
xgrammar::CompiledGrammar compile_grammar(const xgrammar::Grammar& grammar,
                                          const xgrammar::TokenizerInfo& vocabulary) {
  constexpr int kNumThreads = 1;
  try {
    return xgrammar::GrammarCompiler(vocabulary, kNumThreads, true).CompileGrammar(grammar);
  } catch (const std::runtime_error&) {
    return xgrammar::GrammarCompiler(vocabulary, kNumThreads, false).CompileGrammar(grammar);
  }
}

// What is wrong with a form that the library has warned of or refused.
RequestError error_of(const CheckedForm& form, bool whitespace, const std::string& message) {
  if (!form.schema && form.calls.empty()) return {"invalid_form", message};
  std::string fault;
  if (form.schema) fault = fault_of_schema(*form.schema, whitespace);
  for (size_t i = 0; i < form.calls.size() && fault.empty(); ++i) {
    fault = fault_of_schema(form.calls[i].schema, whitespace);
    if (!fault.empty()) fault = fmt::format("tools[{}].function.parameters: {}", i, fault);
  }
  return {"unsupported_schema", fault.empty() ? message : fault};
}

RequestError error_of(CompileMeter::End end, const CompileLimits& limits, FormKind kind) {
  const std::string limit = end == CompileMeter::End::kBytes
                                ? fmt::format("{} MiB", limits.max_bytes >> 20)
                                : fmt::format("{} steps", limits.max_steps);
  return {"invalid_form",
          fmt::format("{} takes more than {}",
                      kind == FormKind::kCall ? "tools: to compile them" : "to compile it", limit)};
}

Result<xgrammar::CompiledGrammar> compile_checked(const CheckedForm& form, bool whitespace,
                                                  const xgrammar::TokenizerInfo& vocabulary) {
  std::string problem;
  {
    const LibraryMessages messages;
    try {
      xgrammar::CompiledGrammar grammar = compile_grammar(grammar_of(form, whitespace), vocabulary);
      problem = messages.first_warning();
      if (problem.empty()) return grammar;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  return error_of(form, whitespace, problem);
}

// The library makes some lists when it first needs them. They must not be counted as the form's.
void make_lists_of_library() {
  const xgrammar::TokenizerInfo tokens(std::vector<std::string>{"a"}, xgrammar::VocabType::RAW,
                                       std::nullopt, std::vector<int32_t>());
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"string",)"
                             R"("maxLength":2},"b":{"enum":["\u00e9",1]}}})";
  static_cast<void>(compile_grammar(grammar_of_schema(schema, false), tokens));
}

}  // namespace

int CompiledForm::num_words() const { return num_mask_words(impl_->num_tokens); }

int64_t CompiledForm::num_bytes() const { return impl_->num_bytes; }

std::string grammar_problem() { return ""; }

struct FormCompiler::Impl {
  const xgrammar::TokenizerInfo& vocabulary();

  Vocabulary make_vocabulary;
  std::mutex mutex = {};
  std::optional<xgrammar::TokenizerInfo> tokens = {};  // guarded by mutex
};

FormCompiler::FormCompiler(Vocabulary vocabulary)
    : impl_(new Impl{.make_vocabulary = std::move(vocabulary)}) {}

FormCompiler::~FormCompiler() = default;

Result<CompiledForm> FormCompiler::compile(const AnswerForm& form) {
  const std::atomic<bool> goes_on = false;
  const int num_tokens = impl_->vocabulary().GetVocabSize();
  return attempt(form, limits_of_compiling(num_tokens), goes_on).outcome;
}

FormCompiler::Attempt FormCompiler::attempt(const AnswerForm& form, const CompileLimits& limits,
                                            const std::atomic<bool>& stopped) {
  Result<CheckedForm> checked = check_form(form);
  if (!checked) return {std::move(checked.error())};
  const xgrammar::TokenizerInfo& known = impl_->vocabulary();
  std::optional<Result<xgrammar::CompiledGrammar>> grammar;
  std::exception_ptr failure;
  CompileMeter::End end = {};
  int64_t num_bytes = 0;
  {
    const CompileMeter meter(limits, stopped);
    try {
      grammar = compile_checked(*checked, form.whitespace, known);
    } catch (...) {
      failure = std::current_exception();
    }
    end = meter.end();
    num_bytes = meter.num_bytes();
  }
  if (end != CompileMeter::End::kNone) return {error_of(end, limits, form.kind), true};
  if (failure) std::rethrow_exception(failure);
  if (!*grammar) return {std::move(grammar->error())};
  return {CompiledForm(std::make_shared<const CompiledForm::Impl>(
      CompiledForm::Impl{**std::move(grammar), known.GetVocabSize(), num_bytes}))};
}

const xgrammar::TokenizerInfo& FormCompiler::Impl::vocabulary() {
  const std::lock_guard lock(mutex);
  if (!tokens) {
    make_lists_of_library();
    // The tokens that end a completion are the request's business: the library knows none.
    tokens.emplace(make_vocabulary(), xgrammar::VocabType::RAW, std::nullopt,
                   std::vector<int32_t>());
  }
  return *tokens;
}

}  // namespace pagedinfer
