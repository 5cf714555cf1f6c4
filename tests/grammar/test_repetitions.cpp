// Masks within counted repetitions, of characters of one to four bytes, against a walk through all
// ways to match.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/form_compiler.h"
#include "tests/support/grammar_support.h"
#include "tests/support/mask_comparison.h"

using namespace pagedinfer;

namespace {

// `before`, then one of `words` from `min` to `max` times, then one of `after`.
struct Repetition {
  std::string before;
  std::vector<std::string> words;
  int min;
  int max;  // -1: no limit
  std::vector<std::string> after;
};

// Where a text may have ended.
struct Place {
  int part;      // 0: before, 1: between words, 2: within a word, 3: after
  int count;     // words that are whole, no more than what counts
  size_t word;   // of the words, or of what is after
  size_t bytes;  // of it
  auto operator<=>(const Place&) const = default;
};
using Places = std::set<Place>;

class Walk {
 public:
  explicit Walk(const Repetition& of) : of_(of) { places_ = with_next({{0, 0, 0, 0}}); }

  // A text that has begun with what was walked to.
  bool may_follow(std::string_view text) const { return !places_behind(text).empty(); }

  void walk_to(const std::string& text) {
    places_ = places_behind(text);
    text_ = text;
  }

  bool is_whole() const {
    return std::ranges::any_of(places_, [&](const Place& place) {
      return place.part == 3 && place.bytes == of_.after[place.word].size();
    });
  }

 private:
  const std::string& text_at(const Place& place) const {
    if (place.part == 0) return of_.before;
    return place.part == 3 ? of_.after[place.word] : of_.words[place.word];
  }

  // With those that need no more bytes.
  Places with_next(Places places) const {
    std::vector<Place> open(places.begin(), places.end());
    const auto add = [&](Place place) {
      if (places.insert(place).second) open.push_back(place);
    };
    while (!open.empty()) {
      const Place at = open.back();
      open.pop_back();
      if (at.part == 0 && at.bytes == of_.before.size()) add({1, 0, 0, 0});
      if (at.part == 2 && at.bytes == of_.words[at.word].size()) {
        add({1, of_.max < 0 ? std::min(at.count + 1, of_.min) : at.count + 1, 0, 0});
      }
      if (at.part != 1) continue;
      for (size_t i = 0; at.count >= of_.min && i < of_.after.size(); ++i) {
        add({3, at.count, i, 0});
      }
      if (at.count == of_.max) continue;
      for (size_t i = 0; i < of_.words.size(); ++i) add({2, at.count, i, 0});
    }
    return places;
  }

  Places places_behind(std::string_view text) const {
    REQUIRE(text.starts_with(text_));
    Places places = places_;
    for (const char c : text.substr(text_.size())) {
      Places next;
      for (Place place : places) {
        if (place.part == 1) continue;
        const std::string& rest = text_at(place);
        if (place.bytes == rest.size() || rest[place.bytes] != c) continue;
        ++place.bytes;
        next.insert(place);
      }
      places = with_next(std::move(next));
    }
    return places;
  }

  const Repetition& of_;
  std::string text_;
  Places places_;
};

// The same as a regular expression and in rules. Of texts of the tokens' characters, `words` are
// all that match.
struct Repeated {
  const char* regex;
  const char* rules;
  std::vector<std::string> words;
};
const std::vector<Repeated> kRepeated = {
    {"[ab]", "[ab]", {"a", "b"}},
    {"[áa]", "[áa]", {"á", "a"}},
    {"[^b]", "[^b]", {"a", "á", "š", "桡", "𡡡"}},
    {"[^bÀ-ÿ一-鿿]", "[^bÀ-ÿ一-鿿]", {"a", "š", "𡡡"}},
    {"[š桡]", "(\"š\" | \"桡\")", {"š", "桡"}},
    {"(?:a|bá)", "(\"a\" | \"bá\")", {"a", "bá"}},
    {"(?:a(?:ba){0,2})", "(\"a\" (\"ba\"){0,2})", {"a", "aba", "ababa"}}};

std::vector<std::string> tokens_around(std::mt19937& random, const Repetition& of) {
  // All bytes that go on with a character are the same: no others can be made of them.
  const char* const pieces[] = {"a",    "b",    "á",    "š",    "桡",   "𡡡",
                                "\xc3", "\xc5", "\xe6", "\xf0", "\xc0", "\xf5",
                                "\xa1", "\xa1", "a",    "b",    "a"};
  std::set<std::string> tokens(std::begin(pieces), std::end(pieces));
  for (int i = 0; i < 15; ++i) {
    std::string token;
    for (auto length = 1 + random() % 4; length > 0; --length) {
      token += pieces[random() % std::size(pieces)];
    }
    tokens.insert(token);
  }
  for (int i = 0; i < 8; ++i) {
    std::string token = i % 2 == 0 ? "" : of.before;
    for (auto length = 1 + random() % 15; length > 0; --length) {
      token += of.words[random() % of.words.size()];
    }
    tokens.insert(token);
    tokens.insert(token + of.after[0]);
  }
  return {tokens.begin(), tokens.end()};
}

}  // namespace

TEST_CASE("masks within repetitions allow what a text can go on with, and no more") {
  if (is_skipped_without_grammar()) return;
  std::mt19937 random(5);
  const std::vector<std::pair<int, int>> counts = {{0, 3},     {1, 1},     {0, 130},  {127, 129},
                                                   {129, 129}, {130, 150}, {140, -1}, {2, -1}};
  int64_t compared = 0;
  for (const Repeated& repeated : kRepeated) {
    for (const auto& [min, max] : counts) {
      for (const bool is_regex : {true, false}) {
        const char* const befores[] = {"", "a", "bá"};
        const std::vector<std::string> afters[] = {{""}, {"b"}, {"", "á"}};
        const Repetition one = {befores[random() % 3], repeated.words, min, max,
                                afters[random() % 3]};
        const std::string count =
            max < 0 ? fmt::format("{{{},}}", min) : fmt::format("{{{},{}}}", min, max);
        const std::string text =
            is_regex ? fmt::format("{}{}{}(?:{})", one.before, repeated.regex, count,
                                   fmt::join(one.after, "|"))
                     : fmt::format("root ::= \"{}\" part{} (\"{}\")\npart ::= {}", one.before,
                                   count, fmt::join(one.after, "\" | \""), repeated.rules);
        CAPTURE(text);
        const std::vector<std::string> tokens = tokens_around(random, one);
        const CompiledForm form = compile_form(
            tokens, {.kind = is_regex ? FormKind::kRegex : FormKind::kGrammar, .texts = {text}});
        Walk walk(one);
        compared += compare_masks(
            form, tokens, random, [&](const std::string& all) { return walk.may_follow(all); },
            [&](const std::string& all) {
              walk.walk_to(all);
              return walk.is_whole();
            },
            160);
      }
    }
  }
  CHECK(compared > 100000);
}
