#include "grammar/form_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/hash.h"
#include "core/start_thread.h"

namespace pagedinfer {

struct FormStore::Entry {
  AnswerForm form;
  bool is_slow = false;
  std::optional<Result<CompiledForm>> outcome = {};  // none: it is not compiled yet
  int64_t num_bytes = 0;
  std::list<Ticket>::iterator place = {};  // once it is compiled
};

namespace {

// Of a form that is kept, beside what it is compiled to.
int64_t bytes_of(const AnswerForm& form, const Result<CompiledForm>& outcome) {
  int64_t bytes = 1024;
  for (const std::string& text : form.texts) bytes += std::ssize(text);
  return outcome ? bytes + outcome->num_bytes() : bytes;
}

}  // namespace

size_t FormStore::HashOfForm::operator()(const AnswerForm& form) const {
  uint64_t hash = hash_word(static_cast<uint64_t>(form.kind), form.whitespace);
  for (const std::string& text : form.texts) hash = hash_bytes(hash, text);
  return hash;
}

FormStore::FormStore(FormCompiler& compiler, FormShares shares, int num_threads)
    : compiler_(compiler),
      quick_{.limits = shares.quick(), .share = shares.quick_bytes()},
      slow_{.limits = shares.slow(), .share = shares.slow_bytes()} {
  constexpr std::string_view kPurpose = "compiles forms of answers";
  const int num_quick = std::clamp(num_threads, 1, FormShares::kMaxQuickThreads);
  try {
    threads_.push_back(start_thread(kPurpose, [this] { work(slow_); }));
    for (int i = 0; i < num_quick; ++i) {
      threads_.push_back(start_thread(kPurpose, [this] { work(quick_); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

FormStore::~FormStore() { stop(); }

void FormStore::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

FormStore::Ticket FormStore::ask(const AnswerForm& form) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_form_.find(form); found != by_form_.end()) {
    const Ticket& entry = found->second;
    if (entry->outcome) compiled_.splice(compiled_.begin(), compiled_, entry->place);
    return entry;
  }
  const auto entry = std::make_shared<Entry>(Entry{.form = form});
  by_form_.emplace(form, entry);
  quick_.waiting.push_back(entry);
  work_.notify_all();
  return entry;
}

std::optional<FormStore::Found> FormStore::take(Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (!ticket->outcome) return std::nullopt;
  const Result<CompiledForm> outcome = *ticket->outcome;
  if (!outcome) {
    ticket.reset();
    work_.notify_all();
    return outcome.error();
  }
  auto leave = [this, kept = std::move(ticket)](const CompiledForm* form) mutable {
    delete form;
    const std::lock_guard lock_to_leave(mutex_);
    kept.reset();
    work_.notify_all();
  };
  return std::shared_ptr<const CompiledForm>(new CompiledForm(*outcome), std::move(leave));
}

void FormStore::wait(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds));
}

int64_t FormStore::num_compiled() const {
  const std::lock_guard lock(mutex_);
  return num_compiled_;
}

int64_t FormStore::num_bytes() const {
  const std::lock_guard lock(mutex_);
  const auto bytes_of_kind = [](const Kind& kind) {
    return kind.bytes + kind.num_active * kind.limits.max_bytes;
  };
  return bytes_of_kind(quick_) + bytes_of_kind(slow_);
}

void FormStore::work(Kind& kind) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Ticket entry;
    work_.wait(lock, [&] { return stopped_ || (entry = begin(kind)) != nullptr; });
    if (stopped_) return;
    lock.unlock();
    std::optional<FormCompiler::Attempt> attempt;
    std::exception_ptr failure;
    try {
      attempt = compiler_.attempt(entry->form, kind.limits, stopped_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failure_ = failure;
      changed_.notify_all();
      return;
    }
    if (!stopped_) end(kind, entry, *std::move(attempt));
  }
}

// The next form to compile; null if there is none, or no room for what it may take.
FormStore::Ticket FormStore::begin(Kind& kind) {
  if (kind.waiting.empty()) return nullptr;
  make_room(kind);
  if (!has_room(kind)) return nullptr;
  ++kind.num_active;
  Ticket entry = std::move(kind.waiting.front());
  kind.waiting.pop_front();
  return entry;
}

void FormStore::end(Kind& kind, const Ticket& entry, FormCompiler::Attempt attempt) {
  --kind.num_active;
  if (attempt.gave_up && &kind == &quick_) {
    entry->is_slow = true;
    slow_.waiting.push_back(entry);
  } else {
    ++num_compiled_;
    entry->num_bytes = bytes_of(entry->form, attempt.outcome);
    entry->outcome = std::move(attempt.outcome);
    kind.bytes += entry->num_bytes;
    compiled_.push_front(entry);
    entry->place = compiled_.begin();
    changed_.notify_all();
  }
  work_.notify_all();
}

bool FormStore::has_room(const Kind& kind) {
  return kind.bytes + (kind.num_active + 1) * kind.limits.max_bytes <= kind.share;
}

// Drops forms that are not in use, the least recently asked for first, until the kind has room.
void FormStore::make_room(Kind& kind) {
  for (auto it = compiled_.end(); it != compiled_.begin() && !has_room(kind);) {
    --it;
    const Entry& entry = **it;
    constexpr int kOwnTickets = 2;  // here and by its form
    if (&kind_of(entry) != &kind || it->use_count() > kOwnTickets) continue;
    kind.bytes -= entry.num_bytes;
    by_form_.erase(entry.form);
    it = compiled_.erase(it);
  }
}

FormStore::Kind& FormStore::kind_of(const Entry& entry) { return entry.is_slow ? slow_ : quick_; }

}  // namespace pagedinfer
