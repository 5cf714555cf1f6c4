#include "text/bpe/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/error.h"
#include "core/refusal.h"
#include "text/tokenizer.h"
#include "text/unicode/unicode_classes.h"

namespace pagedinfer {
namespace {

constexpr std::array<std::string_view, 36> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
    "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",
    "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co"};
constexpr std::array<std::string_view, 4> kGroups = {"?:", "?i:", "?!", "?="};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool repeats(char c) { return c == '*' || c == '+' || c == '?' || c == '{'; }

class Scan {
 public:
  explicit Scan(std::string_view pattern) : left_(pattern) {}

  std::optional<std::string> run() {
    while (!left_.empty() && !foreign_) {
      const char c = left_.front();
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        set();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        count();
      } else if (c == '*' || c == '+' || c == '?') {
        take(1);
        if (!left_.empty() && (left_.front() == '+' || left_.front() == '?')) take(1);
        if (!left_.empty() && repeats(left_.front())) fail(1);
      } else if (c == '.' || c == '^' || c == '$') {
        fail(1);
      } else {
        take(1);
      }
    }
    return foreign_;
  }

 private:
  void take(size_t size) { left_.remove_prefix(std::min(size, left_.size())); }
  void fail(size_t size) { foreign_ = std::string(left_.substr(0, size)); }

  void escape() {
    const char c = left_.size() > 1 ? left_[1] : '\0';
    if (c == 'p' || c == 'P') {
      const size_t end = left_.find('}');
      if (left_.size() < 3 || left_[2] != '{' || end == std::string_view::npos) return fail(3);
      if (std::ranges::find(kCategories, left_.substr(3, end - 3)) == kCategories.end()) {
        return fail(std::min<size_t>(end + 1, 20));
      }
      return take(end + 1);
    }
    const bool punctuation = c > ' ' && c < 0x7F && !std::isalnum(static_cast<unsigned char>(c));
    if (!punctuation && std::string_view("rntfsSdD").find(c) == std::string_view::npos) {
      return fail(2);
    }
    take(2);
  }

  void set() {
    take(left_.substr(1, 1) == "^" ? 2 : 1);
    if (left_.substr(0, 1) == "]") return fail(1);
    while (!left_.empty() && left_.front() != ']' && !foreign_) {
      if (left_.front() == '\\') {
        escape();
      } else if (left_.front() == '[' || left_.substr(0, 2) == "&&") {
        fail(2);
      } else {
        take(1);
      }
    }
    if (!foreign_) take(1);
  }

  void group() {
    take(1);
    if (left_.substr(0, 1) == "*") return fail(1);
    if (left_.substr(0, 1) != "?") return;
    for (const std::string_view known : kGroups) {
      if (left_.starts_with(known)) return take(known.size());
    }
    fail(3);
  }

  void count() {
    size_t end = 1;
    while (end < left_.size() && is_digit(left_[end])) ++end;
    if (end == 1) return fail(2);
    if (end < left_.size() && left_[end] == ',') ++end;
    while (end < left_.size() && is_digit(left_[end])) ++end;
    if (end >= left_.size() || left_[end] != '}') return fail(end);
    take(end + 1);
    if (!left_.empty() && repeats(left_.front())) fail(1);
  }

  std::string_view left_;
  std::optional<std::string> foreign_ = {};
};

}  // namespace

std::optional<std::string> foreign_syntax(std::string_view pattern) { return Scan(pattern).run(); }

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
