// The program of tests. It ends with 77, which ctest shows as skipped, if every test case that ran
// has said "SKIPPED" and asserted nothing. A case that asserts nothing without saying so fails,
// except with sanitizers, where it may have too few random runs to assert anything.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include "tests/support/sanitized.h"

namespace {

int num_run = 0, num_skipped = 0, num_empty = 0;

class EmptyCases : public doctest::IReporter {
 public:
  explicit EmptyCases(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& test) override {
    ++num_run;
    name_ = test.m_name;
    says_skipped_ = false;
  }
  void log_message(const doctest::MessageData& message) override {
    says_skipped_ = says_skipped_ || std::strncmp(message.m_string.c_str(), "SKIPPED", 7) == 0;
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.numAssertsCurrentTest > 0 || stats.failure_flags != 0) return;
    if (says_skipped_) {
      ++num_skipped;
    } else {
      ++num_empty;
      std::fprintf(stderr, "'%s' asserts nothing\n", name_);
    }
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  const char* name_ = "";
  bool says_skipped_ = false;
};

REGISTER_LISTENER("empty_cases", 0, EmptyCases);

}  // namespace

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  if (num_empty > 0 && !pagedinfer::kSanitized) return 1;
  return num_run > 0 && num_skipped == num_run ? kSkipped : 0;
}
