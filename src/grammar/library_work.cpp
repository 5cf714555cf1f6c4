// The library's parser calls SpendWork() (cmake/xgrammar/CMakeLists.txt adds the calls), and gives
// it nothing to tell callers apart by: hence the variable of the thread.
#include "grammar/library_work.h"

#include "core/check.h"
#include "core/error.h"

namespace pagedinfer {
namespace {

thread_local int64_t* work_left = nullptr;
thread_local const char* message_without = nullptr;  // once nothing is left

}  // namespace

WorkLimit::WorkLimit(int64_t& left, const char* message) {
  CHECK(work_left == nullptr && left >= 0);
  work_left = &left;
  message_without = message;
}

WorkLimit::~WorkLimit() { work_left = nullptr; }

}  // namespace pagedinfer

namespace xgrammar {

void SpendWork(int64_t steps);

void SpendWork(int64_t steps) {
  int64_t* const left = pagedinfer::work_left;
  if (left == nullptr) return;
  *left -= steps;
  if (*left < 0) throw pagedinfer::Error(pagedinfer::message_without);
}

}  // namespace xgrammar
