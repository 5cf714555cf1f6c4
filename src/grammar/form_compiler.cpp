#include "grammar/form_compiler.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "core/token_mask.h"
#include "grammar/compiled_form_impl.h"
#include "grammar/form_check.h"
#include "grammar/library_messages.h"
#include "grammar/library_work.h"
#include "grammar/schema_grammar.h"

namespace pagedinfer {

namespace {

// Steps of the library's parser. With a vocabulary of 128,000 tokens a string of up to 128
// characters takes some 100 million.
constexpr int64_t kMaxCompileWork = 2'000'000'000;

using Outcome = std::variant<CompiledForm, RequestError>;

struct HashOfForm {
  size_t operator()(const AnswerForm& form) const {
    uint64_t hash = hash_word(static_cast<uint64_t>(form.kind), form.whitespace);
    for (const std::string& text : form.texts) hash = hash_bytes(hash, text);
    return hash;
  }
};

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

size_t num_bytes_of(const AnswerForm& form, const Outcome& outcome) {
  size_t bytes = 1024;
  for (const std::string& text : form.texts) bytes += text.size();
  const auto* const compiled = std::get_if<CompiledForm>(&outcome);
  return compiled != nullptr ? bytes + compiled->num_bytes() : bytes;
}

}  // namespace

int CompiledForm::num_words() const { return num_mask_words(impl_->num_tokens); }

size_t CompiledForm::num_bytes() const { return impl_->grammar.MemorySizeBytes(); }

std::string grammar_problem() { return ""; }

struct FormCompiler::Impl {
  struct Entry {
    AnswerForm form = {};
    std::optional<Outcome> outcome = {};  // none while a thread compiles it
    size_t num_bytes = 0;
  };
  using Entries = std::list<Entry>;  // the latest used first

  Outcome compile(const AnswerForm& form);
  void trim();
  const xgrammar::TokenizerInfo& vocabulary();

  Vocabulary make_vocabulary;
  size_t max_bytes;

  std::mutex vocabulary_mutex;
  std::optional<xgrammar::TokenizerInfo> tokens;  // guarded by vocabulary_mutex

  mutable std::mutex mutex;  // guards all below
  std::condition_variable compiled;
  Entries entries;
  std::unordered_map<AnswerForm, Entries::iterator, HashOfForm> by_form;
  size_t num_bytes = 0;
  int64_t num_compiled = 0;
};

FormCompiler::FormCompiler(Vocabulary vocabulary, size_t max_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->make_vocabulary = std::move(vocabulary);
  impl_->max_bytes = max_bytes;
}

FormCompiler::~FormCompiler() = default;

int64_t FormCompiler::num_compiled() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->num_compiled;
}

size_t FormCompiler::num_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->num_bytes;
}

bool FormCompiler::is_full() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->num_bytes > impl_->max_bytes;
}

std::variant<CompiledForm, RequestError> FormCompiler::compile(const AnswerForm& form) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  for (;;) {
    const auto found = impl.by_form.find(form);
    if (found == impl.by_form.end()) break;
    if (found->second->outcome) {
      impl.entries.splice(impl.entries.begin(), impl.entries, found->second);
      return *found->second->outcome;
    }
    impl.compiled.wait(lock);
  }
  impl.entries.push_front({.form = form});
  const auto entry = impl.entries.begin();
  impl.by_form.emplace(form, entry);
  lock.unlock();
  Outcome outcome = impl.compile(form);
  lock.lock();
  ++impl.num_compiled;
  entry->outcome = outcome;
  entry->num_bytes = num_bytes_of(form, outcome);
  impl.num_bytes += entry->num_bytes;
  impl.trim();
  impl.compiled.notify_all();
  return outcome;
}

// Drops the forms that were not used for longest. To drop one that has copies would free nothing.
void FormCompiler::Impl::trim() {
  for (auto it = entries.end(); num_bytes > max_bytes && it != entries.begin();) {
    --it;
    if (!it->outcome) continue;
    const auto* const form = std::get_if<CompiledForm>(&*it->outcome);
    if (form != nullptr && form->is_shared()) continue;
    num_bytes -= it->num_bytes;
    by_form.erase(it->form);
    it = entries.erase(it);
  }
}

const xgrammar::TokenizerInfo& FormCompiler::Impl::vocabulary() {
  const std::lock_guard lock(vocabulary_mutex);
  if (!tokens) {
    // The tokens that end a completion are the request's business: the library knows none.
    tokens.emplace(make_vocabulary(), xgrammar::VocabType::RAW, std::nullopt,
                   std::vector<int32_t>());
  }
  return *tokens;
}

Outcome FormCompiler::Impl::compile(const AnswerForm& form) {
  CheckedForm checked;
  if (std::optional<RequestError> error = check_form(form, checked)) return *std::move(error);
  std::string problem;
  {
    const LibraryMessages messages;
    try {
      int64_t work = kMaxCompileWork;
      const WorkLimit limit(work, "to compile it takes too many steps");
      const xgrammar::TokenizerInfo& known = vocabulary();
      const xgrammar::CompiledGrammar grammar =
          compile_grammar(grammar_of(checked, form.whitespace), known);
      problem = messages.first_warning();
      if (problem.empty()) {
        return CompiledForm(std::make_shared<const CompiledForm::Impl>(
            CompiledForm::Impl{grammar, known.GetVocabSize()}));
      }
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  return error_of(checked, form.whitespace, problem);
}

}  // namespace pagedinfer
