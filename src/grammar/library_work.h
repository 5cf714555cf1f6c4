#pragma once

#include <cstdint>

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

}  // namespace pagedinfer
