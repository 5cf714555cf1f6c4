#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

// A regular expression over UTF-8, with the Unicode classes of the reference's library
// (Oniguruma, Unicode 16) whatever Unicode version PCRE2 has.
class Regex {
 public:
  // Throws Error for a pattern that is none, that the two libraries might understand
  // differently, or that matches the empty text.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) = delete;

 private:
  friend class RegexScan;
  struct Code;
  std::unique_ptr<Code> code_;
};

// The matches in texts, one after the other. One per thread.
class RegexScan {
 public:
  struct Match {
    size_t begin, end;
  };

  // REQUIRES: the regex outlives the scan.
  explicit RegexScan(const Regex& regex);
  ~RegexScan();
  RegexScan(const RegexScan&) = delete;
  RegexScan& operator=(const RegexScan&) = delete;

  // Goes to the beginning of another text. REQUIRES: it is UTF-8 and stays until the next one.
  void start(std::string_view text);
  // The next match, none of which overlap. Throws EncodeError if finding it takes too long.
  std::optional<Match> next();

 private:
  struct State;
  const Regex& regex_;
  std::unique_ptr<State> state_;
  std::string_view text_ = {};
  std::string stand_ins_ = {};  // what text_ refers to where it is not the caller's
  size_t from_ = 0;
};

}  // namespace pagedinfer
