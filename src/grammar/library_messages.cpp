// The library calls these functions in place of its own log (XGRAMMAR_LOG_CUSTOMIZE), and gives
// them nothing to tell callers apart by: hence the variable of the thread.
#include "grammar/library_messages.h"

#include <stdexcept>

namespace pagedinfer {

struct LibraryLog {
  static void add(const std::string& message) {
    if (keeper != nullptr && keeper->first_warning_.empty()) keeper->first_warning_ = message;
  }
  static thread_local LibraryMessages* keeper;
};

thread_local LibraryMessages* LibraryLog::keeper = nullptr;

LibraryMessages::LibraryMessages() { LibraryLog::keeper = this; }

LibraryMessages::~LibraryMessages() { LibraryLog::keeper = nullptr; }

}  // namespace pagedinfer

namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message);
void LogMessageImpl(const std::string&, int, int level, const std::string& message);

void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning) pagedinfer::LibraryLog::add(message);
}

}  // namespace xgrammar
