// Compiled forms within a share of memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/answer_form.h"
#include "grammar/form_compiler.h"

namespace pagedinfer {

// Forms are of two kinds, each with a share of its own: quick ones, which compile within small
// limits, several at once, and the others, of which one at a time compiles. So a large form waits
// for large forms only. The numbers are a function of the vocabulary's size.
struct FormShares {
  static constexpr int kMaxQuickThreads = 4;

  int num_tokens;

  CompileLimits quick() const {
    return {.max_steps = 100'000'000, .max_bytes = (int64_t{4} << 20) + int64_t{64} * num_tokens};
  }
  CompileLimits slow() const { return limits_of_compiling(num_tokens); }
  // Of forms that are kept and of those that are being compiled, at their limit.
  int64_t quick_bytes() const { return kMaxQuickThreads * quick().max_bytes + kept(); }
  int64_t slow_bytes() const { return slow().max_bytes + kept(); }
  // The library's copies of the vocabulary, and both shares.
  int64_t total() const { return int64_t{128} * num_tokens + quick_bytes() + slow_bytes(); }

 private:
  int64_t kept() const { return (int64_t{32} << 20) + int64_t{512} * num_tokens; }
};

// Compiles forms on threads of its own, each once, and keeps the latest. A form begins to compile
// when its share has room for what it may take: forms that are not in use make way. Forms of a kind
// begin in the order in which they were asked for. Every method may be called by several
// threads at once.
class FormStore {
 public:
  // Throws Error if a thread cannot be started. REQUIRES: the compiler outlives it.
  FormStore(FormCompiler& compiler, FormShares shares, int num_threads);
  // Gives up what is being compiled. REQUIRES: its forms and tickets are gone.
  ~FormStore();
  FormStore(const FormStore&) = delete;
  FormStore& operator=(const FormStore&) = delete;

  // A form that was asked for.
  struct Entry;
  using Ticket = std::shared_ptr<Entry>;
  Ticket ask(const AnswerForm& form);

  // The form, kept for as long as there are copies of the pointer, or why there is none; then the
  // ticket is null. nullopt while it is not there yet. Throws where there was no memory to compile.
  using Found = Result<std::shared_ptr<const CompiledForm>>;
  std::optional<Found> take(Ticket& ticket);

  // Waits until a form gets there, at most so long.
  void wait(double seconds);

  int64_t num_compiled() const;  // forms that were compiled, not found
  // What the kept forms take, and those that are being compiled, at most: within the shares.
  int64_t num_bytes() const;

 private:
  struct Kind {
    CompileLimits limits = {};
    int64_t share = 0;                // bytes
    int64_t bytes = 0;                // of the kept forms
    int num_active = 0;               // that are being compiled
    std::deque<Ticket> waiting = {};  // to be compiled
  };
  struct HashOfForm {
    size_t operator()(const AnswerForm& form) const;
  };

  void work(Kind& kind);
  void stop();
  // REQUIRES of all these: mutex_ is held.
  Ticket begin(Kind& kind);
  void end(Kind& kind, const Ticket& entry, FormCompiler::Attempt attempt);
  static bool has_room(const Kind& kind);
  void make_room(Kind& kind);
  Kind& kind_of(const Entry& entry);

  FormCompiler& compiler_;
  std::atomic<bool> stopped_ = false;  // changes under mutex_
  mutable std::mutex mutex_;
  std::condition_variable work_, changed_;  // wake the threads, wait()
  // All below is guarded by mutex_.
  Kind quick_, slow_;
  std::list<Ticket> compiled_;  // the latest asked for first
  std::unordered_map<AnswerForm, Ticket, HashOfForm> by_form_;
  int64_t num_compiled_ = 0;
  std::exception_ptr failure_ = {};   // that has ended a thread
  std::vector<std::thread> threads_;  // not guarded
};

}  // namespace pagedinfer
