#include "text/bpe/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "core/error.h"
#include "core/shortened.h"
#include "text/bpe/regex_syntax.h"
#include "text/encode_error.h"
#include "text/unicode/unicode_classes.h"

namespace pagedinfer {

struct Regex::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
};

namespace {

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 200> text = {};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  if (const auto foreign = foreign_syntax(pattern)) {
    throw Error(fmt::format("has '{}', which is not supported", shortened(*foreign)));
  }
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code =
      pcre2_compile(bytes_of(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (code_->code == nullptr) {
    throw Error(fmt::format("is no regular expression: {}, at byte {}", pcre2_message(error), at));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) throw Error("matches the empty text, which is not supported");
  // Ignores a failure: without the just-in-time compiler matching is only slower.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

struct RegexScan::State {
  ~State() { pcre2_match_data_free(match); }
  pcre2_match_data* match = nullptr;
};

RegexScan::RegexScan(const Regex& regex) : regex_(regex), state_(std::make_unique<State>()) {
  state_->match = pcre2_match_data_create(1, nullptr);
  if (state_->match == nullptr) throw std::bad_alloc();
}

RegexScan::~RegexScan() = default;

void RegexScan::start(std::string_view text) {
  text_ = with_stand_ins(text, stand_ins_) ? std::string_view(stand_ins_) : text;
  from_ = 0;
}

std::optional<RegexScan::Match> RegexScan::next() {
  const auto match_with = [&](uint32_t options) {
    return pcre2_match(regex_.code_->code, bytes_of(text_), text_.size(), from_,
                       PCRE2_NO_UTF_CHECK | options, state_->match, nullptr);
  };
  int found = match_with(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_with(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) throw EncodeError("the tokenizer's pattern failed: " + pcre2_message(found));
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(state_->match);
  from_ = span[1];
  return Match{span[0], span[1]};
}

}  // namespace pagedinfer
