#include "text/bpe/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>

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

}  // namespace pagedinfer
