#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/support.h"
#include "text/bpe/added_tokens.h"
#include "text/bpe/merges.h"
#include "text/bpe/normalizer.h"
#include "text/bpe/regex.h"
#include "text/bpe/word_cache.h"
#include "text/unicode/utf8.h"

using namespace pagedinfer;

namespace {

// Merges one pair after the other, by looking at all of them each time.
std::vector<TokenId> merged_simply(const MergeTable& merges, std::vector<TokenId> symbols) {
  for (;;) {
    const MergeTable::Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto* merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge == nullptr || (best != nullptr && best->rank <= merge->rank)) continue;
      best = merge;
      at = i;
    }
    if (best == nullptr) return symbols;
    symbols[at] = best->merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

// Random merges of tokens 0 to 3 and what comes of them.
MergeTable random_merges(std::mt19937& random, int count) {
  MergeTable merges(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto any = [&] { return static_cast<TokenId>(random() % static_cast<uint32_t>(4 + i)); };
    const TokenId left = any(), right = any();
    merges.add(left, right, static_cast<uint32_t>(i), 4 + i);
  }
  return merges;
}

}  // namespace

TEST_CASE("a word is merged as by always taking the first of the best pairs") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const MergeTable merges = random_merges(random, 1 + static_cast<int>(random() % 40));
    // Lengths around the limit between scanning all pairs and the heap.
    std::vector<TokenId> symbols(trial % 3 == 0 ? 30 + random() % 6 : random() % 200);
    const uint32_t letters = 1 + random() % 4;
    for (TokenId& symbol : symbols) symbol = static_cast<TokenId>(random() % letters);
    const auto expected = merged_simply(merges, symbols);
    merge_word(merges, symbols);
    REQUIRE(symbols == expected);
  }
}

TEST_CASE("the work for a long word grows with its length") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 6; ++trial) {
    const MergeTable merges = random_merges(random, 60);
    for (const uint32_t letters : {1u, 2u, 4u}) {
      constexpr size_t kLength = 200000;
      std::vector<TokenId> symbols(kLength);
      for (TokenId& symbol : symbols) symbol = static_cast<TokenId>(random() % letters);
      // Each pair is looked up once at first, and each merge adds at most two pairs, looked up
      // twice.
      CHECK(merge_word(merges, symbols) <= static_cast<int64_t>(6 * kLength));
    }
  }
}

TEST_CASE("the classes in patterns have the reference's characters") {
  std::string all;
  std::map<size_t, char32_t> at;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    at.emplace_hint(at.end(), all.size(), c);
    append_utf8(all, c);
  }
  std::istringstream file(read_file(source_dir() + "/tests/data/tokenizers/classes.txt"));
  int num_classes = 0;
  for (std::string line; std::getline(file, line); ++num_classes) {
    std::istringstream words(line);
    std::string pattern, range;
    words >> pattern;
    CAPTURE(pattern);
    std::vector<char32_t> expected, found;
    while (words >> range) {
      const size_t dash = range.find('-');
      const auto first = std::stoul(range, nullptr, 16);
      const auto last =
          dash == std::string::npos ? first : std::stoul(range.substr(dash + 1), nullptr, 16);
      for (auto c = first; c <= last; ++c) expected.push_back(static_cast<char32_t>(c));
    }
    const Regex regex(pattern);
    RegexScan scan(regex);
    scan.start(all);
    while (const auto match = scan.next()) found.push_back(at.at(match->begin));
    CHECK(found == expected);
  }
  CHECK(num_classes == 14);
}

TEST_CASE("composition is canonical, and linear in the marks") {
  const NormalizerStep compose = nfc();
  CHECK(compose("e\xCC\x81") == "\xC3\xA9");
  CHECK(compose("e\xCC\xA3\xCC\x81") == compose("e\xCC\x81\xCC\xA3"));
  CHECK(compose("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8") == "\xEA\xB0\x81");  // Hangul
  CHECK(compose("\xE2\x84\xAB") == "\xC3\x85");                              // the angstrom sign
  // A mark of a later Unicode version is not reordered.
  CHECK(compose("q\xCD\x85\xDF\xBD") == "q\xCD\x85\xDF\xBD");
  // A megabyte of marks in the worst order: sorting by swaps would take hours.
  std::string marks = "a";
  for (int i = 0; i < 250000; ++i) marks += "\xCC\xB4\xCC\x81";
  CHECK(compose(marks).size() <= marks.size());
}

TEST_CASE("a token that another one took along is not found again") {
  const AddedTokens tokens({{.id = 1, .content = "  ", .lstrip = true, .rstrip = true}});
  for (const std::string text : {"  ", "    ", "       "}) {
    const auto parts = tokens.split(text);
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].id == 1);
    CHECK(parts[0].text == text);
  }
}

TEST_CASE("added tokens are found leftmost and longest, with the space they take") {
  const AddedTokens tokens({{.id = 1, .content = "ab"},
                            {.id = 2, .content = "abc"},
                            {.id = 3, .content = "<l>", .lstrip = true},
                            {.id = 4, .content = "<r>", .rstrip = true},
                            {.id = 5, .content = "word", .single_word = true}});
  const auto shown = [&](std::string_view text) {
    std::string all;
    for (const AddedTokens::Part& part : tokens.split(text)) {
      all += part.id ? std::to_string(*part.id) : "";
      all += "[" + std::string(part.text) + "]";
    }
    return all;
  };
  CHECK(shown("") == "");
  CHECK(shown("xyz") == "[xyz]");
  CHECK(shown("xabcab") == "[x]2[abc]1[ab]");
  CHECK(shown("a \xC2\xA0<l> b") == "[a]3[ \xC2\xA0<l>][ b]");
  CHECK(shown("a <r> \n b") == "[a ]4[<r> \n ][b]");
  CHECK(shown("<r> <l>") == "4[<r> ]3[<l>]");
  CHECK(shown("words sword word, word") == "[words sword ]5[word][, ]5[word]");
  CHECK(shown("word\xE2\x93\x90") == "[word\xE2\x93\x90]");  // a circled letter
  CHECK(shown("\xC3\xA9word word\xC3\xA9") == "[\xC3\xA9word word\xC3\xA9]");
}

TEST_CASE("a cache that threads share gives each word its own tokens") {
  WordCache cache(16);  // few entries: words replace each other
  const auto tokens_of = [](const std::string& word) {
    return std::vector<TokenId>(word.size() % 9, static_cast<TokenId>(word.back()));
  };
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0, hits = 0;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 20000; ++i) {
        const std::string word(1 + random() % 30, static_cast<char>('a' + random() % 3));
        std::vector<TokenId> ids;
        if (!cache.find(word, ids)) {
          cache.put(word, tokens_of(word));
          continue;
        }
        ++hits;
        if (ids != tokens_of(word)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(hits > 0);
}
