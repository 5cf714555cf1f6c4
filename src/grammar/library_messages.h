#pragma once

#include <string>

namespace pagedinfer {

// While it lives, keeps what the library warns of on this thread. The library says nothing on
// standard error, and what nothing keeps is lost. REQUIRES: one at a time on a thread.
class LibraryMessages {
 public:
  LibraryMessages();
  ~LibraryMessages();
  LibraryMessages(const LibraryMessages&) = delete;
  LibraryMessages& operator=(const LibraryMessages&) = delete;

  const std::string& first_warning() const { return first_warning_; }  // "": there was none

 private:
  friend struct LibraryLog;
  std::string first_warning_;
};

}  // namespace pagedinfer
