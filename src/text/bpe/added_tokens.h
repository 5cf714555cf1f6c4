#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/request.h"
#include "text/bpe/regex.h"

namespace pagedinfer {

struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool special = false;      // leaves no text
  bool single_word = false;  // found only where no letter stands beside it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  bool normalized = false;   // looked for in the normalized text
};

// Finds tokens that a text spells out: of those that begin leftmost the longest, none of which
// overlap.
class AddedTokens {
 public:
  // A piece of the text: a token, or what lies between them.
  struct Part {
    std::optional<TokenId> id;
    std::string_view text;
  };

  explicit AddedTokens(std::vector<AddedToken> tokens);
  // `contents` are looked for in the place of the tokens' own. REQUIRES: as many, not empty.
  // The same content twice is the first token.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& contents);

  // The parts of `text`, without empty ones.
  std::vector<Part> split(std::string_view text) const;

 private:
  struct Found {
    size_t token, size;
  };

  void add(size_t token, std::string_view content);
  std::optional<Found> longest_at(std::string_view text) const;
  bool inside_word(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  // A trie: node 0 is the root; an edge is (node, byte).
  std::unordered_map<uint64_t, uint32_t> edges_ = {};
  std::vector<std::optional<size_t>> ends_ = {};  // by node: the token that ends there
  std::vector<bool> begins_;                      // by byte: whether a token begins with it
  std::unique_ptr<Regex> word_ = {};              // a character of a word
};

}  // namespace pagedinfer
