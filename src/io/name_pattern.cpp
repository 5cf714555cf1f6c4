#include "io/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <string>

#include "core/error.h"
#include "core/refusal.h"

namespace pagedinfer {
namespace {

// Of one match. Backtracking may take exponential time.
constexpr uint32_t kMaxSteps = 1'000'000;
constexpr uint32_t kMaxMemory = 16 << 10;  // KiB

PCRE2_SPTR code_units_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

Error invalid(std::string_view pattern, std::string_view problem) {
  return Error(
      fmt::format("'{}' is no regular expression that is known: {}", shortened(pattern), problem));
}

}  // namespace

struct NamePattern::Code {
  ~Code() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
  std::string pattern;  // for messages
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  pcre2_match_data* match = nullptr;
};

NamePattern::NamePattern(std::string_view pattern, Extent extent)
    : code_(std::make_unique<Code>()) {
  code_->pattern = pattern;
  // Python counts from 0 then, PCRE2 takes the characters as they are.
  if (pattern.find("{,") != pattern.npos) throw invalid(pattern, "'{,' is not supported");
  int error = 0;
  PCRE2_SIZE at = 0;
  const uint32_t ends = extent == Extent::kWholeName ? PCRE2_ENDANCHORED : 0;
  code_->code = pcre2_compile(code_units_of(pattern), pattern.size(), PCRE2_ANCHORED | ends, &error,
                              &at, nullptr);
  if (code_->code == nullptr) {
    std::array<PCRE2_UCHAR, 200> text = {};
    pcre2_get_error_message(error, text.data(), text.size());
    throw invalid(pattern, reinterpret_cast<const char*>(text.data()));
  }
  code_->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(code_->limits, kMaxSteps);
  pcre2_set_heap_limit(code_->limits, kMaxMemory);
  code_->match = pcre2_match_data_create(1, nullptr);
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;

bool NamePattern::matches(std::string_view name) const {
  const int found =
      pcre2_match(code_->code, code_units_of(name), name.size(), 0, 0, code_->match, code_->limits);
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  throw invalid(code_->pattern, fmt::format("matching '{}' takes too long", shortened(name)));
}

}  // namespace pagedinfer
