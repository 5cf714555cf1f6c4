// The library's parser calls SpendWork() (cmake/xgrammar/CMakeLists.txt adds the calls), and gives
// it nothing to tell callers apart by; neither does operator new: hence the variables of the
// thread.
#include "grammar/library_work.h"

#include <cstdlib>
#include <exception>
#include <new>

#include "core/check.h"
#include "core/error.h"
#include "grammar/token_matcher.h"

namespace pagedinfer {
namespace {

constexpr int64_t kStepsOfObject = 4;  // an object takes as long as so many steps of the parser

thread_local int64_t* work_left = nullptr;
thread_local const char* message_without = nullptr;  // once nothing is left
thread_local CompileMeter* meter = nullptr;

struct GivenUp final : std::bad_alloc {
  const char* what() const noexcept override { return "the form is given up"; }
};

// Of the heap: the object's size and the allocator's own word, in units of two words.
int64_t bytes_on_heap(size_t bytes) {
  constexpr size_t kWord = sizeof(void*);
  return static_cast<int64_t>((bytes + 3 * kWord - 1) / (2 * kWord) * (2 * kWord));
}

}  // namespace

WorkLimit::WorkLimit(int64_t& left, const char* message) {
  CHECK(work_left == nullptr && meter == nullptr && left >= 0);
  work_left = &left;
  message_without = message;
}

WorkLimit::~WorkLimit() { work_left = nullptr; }

CompileMeter::CompileMeter(const CompileLimits& limits, const std::atomic<bool>& stopped)
    : limits_(limits), stopped_(stopped) {
  CHECK(work_left == nullptr && meter == nullptr);
  meter = this;
}

CompileMeter::~CompileMeter() { meter = nullptr; }

void CompileMeter::spend(int64_t steps) {
  num_steps_ += steps;
  check();
}

void CompileMeter::take(size_t bytes) {
  num_steps_ += kStepsOfObject;
  num_bytes_ += bytes_on_heap(bytes);
  check();
}

void CompileMeter::give_back(size_t bytes) { num_bytes_ -= bytes_on_heap(bytes); }

// Does not throw while an exception is on its way: destructors may make objects.
void CompileMeter::check() {
  if (end_ == End::kNone) {
    if (num_steps_ > limits_.max_steps) end_ = End::kSteps;
    if (num_bytes_ > limits_.max_bytes) end_ = End::kBytes;
    if (stopped_.load(std::memory_order_relaxed)) end_ = End::kStopped;
  }
  if (end_ != End::kNone && std::uncaught_exceptions() == 0) throw GivenUp();
}

}  // namespace pagedinfer

namespace xgrammar {

void SpendWork(int64_t steps);
void CheckStates(int64_t count);

void SpendWork(int64_t steps) {
  if (pagedinfer::meter != nullptr) pagedinfer::meter->spend(steps);
  int64_t* const left = pagedinfer::work_left;
  if (left == nullptr) return;
  *left -= steps;
  if (*left < 0) throw pagedinfer::Error(pagedinfer::message_without);
}

// `count` are the states that a matcher keeps.
void CheckStates(int64_t count) {
  if (pagedinfer::work_left == nullptr || count <= pagedinfer::kMaxFormStates) return;
  throw pagedinfer::Error("to match the text takes too much memory");
}

}  // namespace xgrammar

// Of the whole program; without a meter they are what the language has. Those of arrays end here
// too. What is freed without a size stays counted.
void* operator new(size_t bytes) {
  if (pagedinfer::meter != nullptr) pagedinfer::meter->take(bytes);
  for (;;) {
    if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

// The sanitizers have one of their own, whose memory delete below could not free.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (...) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept { std::free(memory); }

void operator delete(void* memory, size_t bytes) noexcept {
  if (pagedinfer::meter != nullptr && memory != nullptr) pagedinfer::meter->give_back(bytes);
  std::free(memory);
}
