#include "grammar/regex_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/utf8.h"

namespace pagedinfer {

namespace {

// White space that Python or ECMA-262 knows, as it stands in a class.
constexpr std::string_view kEverySpace =
    R"(\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff)";
constexpr std::string_view kAsciiSpace = R"(\u0009-\u000d\u0020)";
constexpr std::string_view kNotNewline = R"([^\u000a\u000d\u2028\u2029\ud800-\udfff])";
constexpr std::string_view kSurrogates = R"(\ud800-\udfff)";  // are no characters
constexpr std::string_view kPunctuation = R"(^$.*+?()[]{}|/\-"'#&~,:;<=>@_%!` )";

constexpr std::string_view kEscapedInJson =
    "a string of JSON has this character only escaped, which is not supported";

bool is_escaped_in_json(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

// The fewest and the most characters of what a part matches.
struct Span {
  static constexpr int64_t kEndless = int64_t{1} << 40;
  int64_t min = 0, max = 0;

  bool is_fixed() const { return min == max; }
  Span operator+(const Span& other) const {
    return {std::min(min + other.min, kEndless), std::min(max + other.max, kEndless)};
  }
  Span operator|(const Span& other) const {
    return {std::min(min, other.min), std::max(max, other.max)};
  }
  // REQUIRES: `least`, and `most` if it is set, are at most kMaxRepetitions + 1.
  Span repeated(int64_t least, std::optional<int64_t> most) const {
    const int64_t max_characters = most ? max * *most : max > 0 ? kEndless : 0;
    return {std::min(min * least, kEndless), std::min(max_characters, kEndless)};
  }
};

class RegexWriter {
 public:
  RegexWriter(std::string_view regex, RegexUse use, TextLengths lengths)
      : rest_(regex), size_(regex.size()), use_(use), lengths_(lengths) {}

  Result<std::string> write();

 private:
  // What stands before a place: how often it is repeated, so far.
  struct Group {
    int64_t repetitions = 1;            // the maximum of a character in it
    int64_t last_repetitions = 0;       // of the latest atom; 0: there is none to repeat
    bool branch_is_empty = true;        // nothing stands behind the beginning or the latest |
    std::optional<Span> branches = {};  // before the latest |
    Span head = {}, atom = {};  // all atoms of this branch but the latest; it with its repetitions
    Span span() const { return branches ? *branches | (head + atom) : head + atom; }
  };
  // A repetition outside of all groups that decides how long the text is.
  struct Repetition {
    int64_t unit = 0;  // characters
    int64_t min = 0;
    std::optional<int64_t> max = {};
    size_t begin = 0, end = 0;        // of its mark in the output
    int64_t repetitions_of_unit = 1;  // as Group::last_repetitions
  };

  bool fail(std::string_view what) {
    if (problem_.empty()) {
      problem_ = fmt::format("at its byte {}: {}", size_ - rest_.size() + 1, what);
    }
    return false;
  }
  bool eat(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool step();
  bool open_group();
  bool close_group();
  // Of the latest atom.
  bool repeat(std::string_view mark, int64_t min, std::optional<int64_t> max);
  void fit_lengths();
  bool repeat_counted();
  std::optional<int64_t> number();
  bool escape();
  bool character_class();
  bool unit_of_class(bool negated, std::optional<uint32_t>& character, std::string& text);
  std::optional<uint32_t> escaped_character();
  std::optional<uint32_t> hex(size_t digits);
  uint32_t take_character();
  bool literal(uint32_t character);
  bool is_rule() const { return use_ == RegexUse::kRule; }
  std::string escaped(uint32_t character) const {
    return is_rule() ? fmt::format("\\U{:08x}", character) : fmt::format("\\u{{{:x}}}", character);
  }
  void end_branch() {
    if (is_rule() && groups_.back().branch_is_empty) out_ += " \"\"";
  }
  void begin_atom() {
    if (is_rule()) out_ += ' ';
    Group& group = groups_.back();
    group.branch_is_empty = false;
    end_atom();
    group.head = group.head + group.atom;
    group.atom = {};
  }
  void end_atom() {
    if (groups_.size() == 1 && !groups_.back().atom.is_fixed()) ++num_varying_;
  }
  void put_atom(std::string_view text) {
    begin_atom();
    out_ += text;
    groups_.back().last_repetitions = 1;
    groups_.back().atom = {1, 1};
  }

  std::string_view rest_;
  const size_t size_;
  const RegexUse use_;
  const TextLengths lengths_;
  std::string out_;
  std::string problem_;
  std::vector<Group> groups_ = {{}};
  int num_varying_ = 0;      // atoms outside of groups that match texts of several lengths
  Repetition varying_ = {};  // the latest of them that is a repetition
};

Result<std::string> RegexWriter::write() {
  if (size_ > kMaxRegexBytes) {
    return {"invalid_form", fmt::format("is longer than {} bytes", kMaxRegexBytes)};
  }
  eat("^");
  while (!rest_.empty() && problem_.empty()) {
    if (rest_ == "$") break;
    if (!step()) break;
  }
  if (problem_.empty() && groups_.size() > 1) fail("a group has no end");
  end_branch();
  if (problem_.empty()) fit_lengths();
  if (!problem_.empty()) return {"invalid_form", problem_};
  return std::move(out_);
}

// Narrows the one repetition that decides the length, unless all texts have a length that fits.
void RegexWriter::fit_lengths() {
  end_atom();
  const Span span = groups_.back().span();
  const int64_t max = lengths_.max.value_or(Span::kEndless);
  if (span.min >= lengths_.min && span.max <= max) return;
  const int64_t unit = varying_.unit, fixed = span.min - unit * varying_.min;
  if (groups_.back().branches || num_varying_ != 1 || unit == 0) {
    problem_ =
        "minLength and maxLength are kept beside it only if all its texts have such lengths, or if "
        "one character or group of a fixed length is repeated and the rest has a fixed length";
    return;
  }
  const int64_t least =
      std::max(varying_.min, (std::max<int64_t>(lengths_.min - fixed, 0) + unit - 1) / unit);
  const int64_t most = std::min(varying_.max.value_or(Span::kEndless), (max - fixed) / unit);
  if (max < fixed || most < least) {
    problem_ = "no text that matches it has such a length";
    return;
  }
  const bool is_endless = most > kMaxRepetitions && !varying_.max && !lengths_.max;
  const int64_t repetitions = varying_.repetitions_of_unit * (is_endless ? least : most);
  const int64_t limit = is_rule() ? kMaxRepetitions : kMaxRepetitionsInString;
  if (repetitions > limit) {
    problem_ = fmt::format("with these lengths it repeats more than {} times", limit);
    return;
  }
  out_.replace(varying_.begin, varying_.end - varying_.begin,
               is_endless ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most));
}

bool RegexWriter::step() {
  const char c = rest_.front();
  switch (c) {
    case '^':
    case '$': return fail("^ and $ may stand only at the beginning and the end");
    case '(': return open_group();
    case ')': return close_group();
    case '[': return character_class();
    case ']':
    case '}': return fail("] and } that close nothing need a backslash");
    case '{': return repeat_counted();
    case '*': return eat("*") && repeat("*", 0, std::nullopt);
    case '+': return eat("+") && repeat("+", 1, std::nullopt);
    case '?': return eat("?") && repeat("?", 0, 1);
    case '\\': return escape();
    case '|':
      eat("|");
      end_branch();
      out_ += is_rule() ? " |" : "|";
      groups_.back().last_repetitions = 0;
      groups_.back().branch_is_empty = true;
      groups_.back().branches = groups_.back().span();
      groups_.back().head = groups_.back().atom = {};
      return true;
    case '.':
      eat(".");
      put_atom(kNotNewline);
      return true;
    default: return literal(take_character());
  }
}

bool RegexWriter::open_group() {
  eat("(");
  if (eat("?")) {
    if (eat("P<") || (rest_.starts_with("<") && !rest_.starts_with("<=") &&
                      !rest_.starts_with("<!") && eat("<"))) {
      const size_t end = rest_.find('>');
      if (end == std::string_view::npos || end == 0) return fail("the name of a group has no end");
      rest_.remove_prefix(end + 1);
    } else if (!eat(":")) {
      return fail("(?...) is supported for (?:...) and names of groups only");
    }
  }
  if (groups_.size() > size_t{kMaxRegexDepth}) {
    return fail(fmt::format("groups are nested deeper than {} levels", kMaxRegexDepth));
  }
  begin_atom();
  out_ += is_rule() ? "(" : "(?:";
  groups_.push_back({});
  return true;
}

bool RegexWriter::close_group() {
  if (groups_.size() == 1) return fail("a group ends that has not begun");
  eat(")");
  end_branch();
  out_ += ')';
  const int64_t repetitions = groups_.back().repetitions;
  const Span span = groups_.back().span();
  groups_.pop_back();
  groups_.back().atom = span;
  groups_.back().last_repetitions = repetitions;
  groups_.back().repetitions = std::max(groups_.back().repetitions, repetitions);
  return true;
}

bool RegexWriter::repeat(std::string_view mark, int64_t min, std::optional<int64_t> max_count) {
  const int64_t count = std::max<int64_t>(1, max_count.value_or(min));
  Group& group = groups_.back();
  if (group.last_repetitions == 0) return fail("there is nothing to repeat");
  const int64_t max = is_rule() ? kMaxRepetitions : kMaxRepetitionsInString;
  const int64_t repetitions = group.last_repetitions * count;
  if (repetitions > max) return fail(fmt::format("it repeats more than {} times", max));
  // Any of them may be the empty ones, and the library follows each of the ways to choose them.
  if (count > 1 && group.atom.min == 0 && repetitions > kMaxEmptyRepetitions) {
    return fail(
        fmt::format("it repeats what may be empty more than {} times", kMaxEmptyRepetitions));
  }
  const Span unit = std::exchange(group.atom, group.atom.repeated(min, max_count));
  if (groups_.size() == 1 && !group.atom.is_fixed()) {
    varying_ = {.unit = unit.is_fixed() ? unit.min : 0,
                .min = min,
                .max = max_count,
                .begin = out_.size(),
                .end = out_.size() + mark.size(),
                .repetitions_of_unit = group.last_repetitions};
  }
  out_ += mark;
  eat("?");  // lazy: the same texts match
  group.repetitions = std::max(group.repetitions, repetitions);
  group.last_repetitions = 0;
  if (!rest_.empty() && std::string_view("*+?{").find(rest_.front()) != std::string_view::npos) {
    return fail("a repetition is repeated");
  }
  return true;
}

std::optional<int64_t> RegexWriter::number() {
  int64_t value = 0;
  size_t digits = 0;
  for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
    value = std::min<int64_t>(value * 10 + (rest_[digits] - '0'), kMaxRepetitions + 1);
  }
  if (digits == 0) return std::nullopt;
  rest_.remove_prefix(digits);
  return value;
}

bool RegexWriter::repeat_counted() {
  eat("{");
  const std::optional<int64_t> min = number();
  std::optional<int64_t> max = min;
  const bool ranged = eat(",");
  if (ranged) max = number();
  if (!min || !eat("}")) return fail("expected {n}, {n,} or {n,m}");
  if (max && *max < *min) return fail("a repetition's maximum is below its minimum");
  const std::string mark = !ranged ? fmt::format("{{{}}}", *min)
                           : max   ? fmt::format("{{{},{}}}", *min, *max)
                                   : fmt::format("{{{},}}", *min);
  return repeat(mark, *min, max);
}

bool RegexWriter::literal(uint32_t character) {
  if (!is_rule() && is_escaped_in_json(character)) return fail(kEscapedInJson);
  put_atom(is_rule() ? fmt::format("\"{}\"", escaped(character)) : escaped(character));
  return true;
}

bool RegexWriter::escape() {
  const char c = rest_.size() > 1 ? rest_[1] : ' ';
  const std::string_view set = c == 'd'   ? R"([0-9])"
                               : c == 'D' ? R"([\u0000-/:-\u007f])"
                               : c == 'w' ? R"([0-9A-Za-z_])"
                               : c == 'W' ? R"([\u0000-/:-@\u005b-\u005e`\u007b-\u007f])"
                                          : "";
  if (!set.empty()) {
    put_atom(set);
  } else if (c == 's') {
    put_atom(fmt::format("[{}]", kAsciiSpace));
  } else if (c == 'S') {
    put_atom(fmt::format("[^{}{}]", kEverySpace, kSurrogates));
  } else {
    const std::optional<uint32_t> character = escaped_character();
    return character && literal(*character);
  }
  rest_.remove_prefix(2);
  return true;
}

// A character behind a backslash.
std::optional<uint32_t> RegexWriter::escaped_character() {
  eat("\\");
  if (rest_.empty()) {
    fail("a backslash is the last character");
    return std::nullopt;
  }
  constexpr std::string_view kLetters = "tnvfr";  // U+0009 to U+000D, in this order
  const char c = rest_.front();
  if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
    rest_.remove_prefix(1);
    return 9 + static_cast<uint32_t>(i);
  }
  if (eat("x")) return hex(2);
  if (eat("u")) return hex(4);
  if (kPunctuation.find(c) != std::string_view::npos) return take_character();
  fail(fmt::format("\\{} is not supported", static_cast<unsigned char>(c) < 0x80 ? c : '?'));
  return std::nullopt;
}

std::optional<uint32_t> RegexWriter::hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = i < rest_.size() ? rest_[i] : ' ';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      fail(fmt::format("expected {} hexadecimal digits", digits));
      return std::nullopt;
    }
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  if (value >= 0xD800 && value < 0xE000) {
    fail("a surrogate is no character");
    return std::nullopt;
  }
  rest_.remove_prefix(digits);
  return value;
}

uint32_t RegexWriter::take_character() {
  const auto length = static_cast<size_t>(std::max(1, utf8_length(rest_)));
  auto value = static_cast<uint32_t>(static_cast<unsigned char>(rest_[0]));
  if (length > 1) {
    value &= 0x7Fu >> length;
    for (size_t i = 1; i < length; ++i) {
      value = value << 6 | (static_cast<unsigned char>(rest_[i]) & 0x3Fu);
    }
  }
  rest_.remove_prefix(length);
  return value;
}

bool RegexWriter::character_class() {
  eat("[");
  const bool negated = eat("^");
  std::string text = negated ? "[^" : "[";
  bool is_empty = true;
  bool has_ascii_set = false;
  while (!eat("]")) {
    if (rest_.empty()) return fail("a class of characters has no end");
    has_ascii_set = has_ascii_set || rest_.starts_with("\\d") || rest_.starts_with("\\w");
    std::optional<uint32_t> first;
    if (!unit_of_class(negated, first, text)) return false;
    is_empty = false;
    if (!first) continue;
    text += escaped(*first);
    if (rest_.size() < 2 || rest_[0] != '-' || rest_[1] == ']') continue;
    eat("-");
    std::optional<uint32_t> last;
    if (!unit_of_class(negated, last, text)) return false;
    if (!last || *last < *first) return fail("a range of characters has no such end");
    text += '-' + escaped(*last);
  }
  if (is_empty) return fail("a class of characters is empty");
  // Python knows more digits and letters than ASCII has.
  if (negated && has_ascii_set) {
    text += escaped(0x80) + '-' + escaped(0x10FFFF);
  } else if (negated) {
    text += kSurrogates;
  }
  put_atom(text + ']');
  return true;
}

// A character, or a set, which goes to `text` and leaves none.
bool RegexWriter::unit_of_class(bool negated, std::optional<uint32_t>& character,
                                std::string& text) {
  const char c = rest_.size() > 1 && rest_[0] == '\\' ? rest_[1] : ' ';
  const std::string_view set = c == 'd'   ? "0-9"
                               : c == 'w' ? "0-9A-Za-z_"
                               : c == 's' ? (negated ? kEverySpace : kAsciiSpace)
                                          : "";
  if (!set.empty()) {
    text += set;
    rest_.remove_prefix(2);
    return true;
  }
  if (rest_[0] == '[') return fail("[ within a class needs a backslash");
  character = rest_[0] == '\\' ? escaped_character() : take_character();
  if (!character) return false;
  if (!is_rule() && !negated && is_escaped_in_json(*character)) return fail(kEscapedInJson);
  return true;
}

}  // namespace

Result<std::string> rewrite_regex(std::string_view regex, RegexUse use, TextLengths lengths) {
  return RegexWriter(regex, use, lengths).write();
}

}  // namespace pagedinfer
