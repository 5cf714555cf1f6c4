#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "grammar/form_compiler.h"

namespace pagedinfer {

// Limits what the library's parser computes on this thread while it lives. A form that matches a
// text in very many ways takes a power of the text's length, and the library has no limit. Counts
// steps of the parser and not time (some 30 ns each), so that where it ends is a function of form
// and text. An Error with `message` is thrown from within the library once more than `left` are
// spent; what the library was working on cannot be used any more.
class WorkLimit {
 public:
  // REQUIRES: `left` and `message` outlive it, `left` is at least 0, the thread has no other one.
  WorkLimit(int64_t& left, const char* message);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;
};

// Counts what this thread takes to compile a form, and throws from within operator new or the
// parser once that is more than the limits, or once `stopped` is true. Bytes are those of all
// objects that exist at once, with what the allocator puts around each. Steps are those of the
// parser, and a few for each object: what the library does besides is to build. So both are
// functions of the form and the vocabulary.
class CompileMeter {
 public:
  enum class End : uint8_t { kNone, kSteps, kBytes, kStopped };

  // REQUIRES: all outlive it, the thread has no other one and no WorkLimit, and what the thread
  // frees meanwhile it has allocated meanwhile.
  CompileMeter(const CompileLimits& limits, const std::atomic<bool>& stopped);
  ~CompileMeter();
  CompileMeter(const CompileMeter&) = delete;
  CompileMeter& operator=(const CompileMeter&) = delete;

  End end() const { return end_; }  // why it has thrown
  int64_t num_bytes() const { return num_bytes_; }

  void spend(int64_t steps);
  void take(size_t bytes);
  void give_back(size_t bytes);

 private:
  void check();

  const CompileLimits limits_;
  const std::atomic<bool>& stopped_;
  int64_t num_steps_ = 0, num_bytes_ = 0;
  End end_ = End::kNone;
};

}  // namespace pagedinfer
