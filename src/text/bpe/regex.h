#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace pagedinfer {

// A regular expression over UTF-8. Character classes are those of Unicode 16, as in the reference's
// library (Oniguruma), whatever Unicode version PCRE2 has.
class Regex {
 public:
  // Throws Error if the pattern is invalid, might mean something else in the reference's library,
  // or matches the empty text.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) = delete;

 private:
  friend class RegexScan;
  struct Code;
  std::unique_ptr<Code> code_;
};

// Finds the matches of a regex in a text, left to right. Not thread-safe: one for each thread.
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

  // Begins another text. REQUIRES: it is UTF-8 and valid until the next start().
  void start(std::string_view text);
  // The next match behind the last one. Throws EncodeError if finding it takes too long.
  std::optional<Match> next();

 private:
  struct State;
  const Regex& regex_;
  std::unique_ptr<State> state_;
  std::string_view text_ = {};
  std::string stand_ins_ = {};  // the text with replaced characters, if text_ needs them
  size_t from_ = 0;
};

// The first construct of a pattern that may differ in meaning between Oniguruma's Ruby syntax,
// which tokenizer.json uses, and PCRE2; nullopt if there is none.
std::optional<std::string> foreign_syntax(std::string_view pattern);

}  // namespace pagedinfer
