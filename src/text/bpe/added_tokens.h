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
#include "text/tokenizer.h"

namespace pagedinfer {

struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool special = false;      // decodes to no text
  bool single_word = false;  // matches only between characters that belong to no word
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space behind it
  bool normalized = false;   // searched in the normalized text
};

// Finds the added tokens that a text spells out: leftmost first, of those the longest; matches do
// not overlap.
class AddedTokens {
 public:
  // A piece of the text: a token, or text between tokens.
  struct Part {
    std::optional<TokenId> id;
    std::string_view text;
  };

  explicit AddedTokens(std::vector<AddedToken> tokens);
  // Searches for contents[i] instead of tokens[i].content. Of equal contents the first token is
  // found. REQUIRES: the sizes are equal; no content is empty.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& contents);

  // The longest token with which `text` begins, whatever stands behind it.
  std::optional<Tokenizer::AddedPrefix> prefix(std::string_view text) const;
  // The parts of `text` in order; none is empty.
  std::vector<Part> split(std::string_view text) const { return split(text, {}); }
  // The same, but what people wrote holds no control token (see WrittenParts).
  std::vector<Part> split(std::string_view text, const WrittenParts& written) const;
  // Where what people wrote spells a control token, ascending.
  std::vector<size_t> places_of_controls(std::string_view text, const WrittenParts& written) const;

 private:
  struct Found {
    size_t token, size;
  };

  void add(size_t token, std::string_view content);
  std::optional<Found> longest_at(std::string_view text) const;
  bool is_passed(const Found& found, size_t begin, const WrittenParts& written) const;
  bool inside_word(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  // A trie: node 0 is the root; an edge is (node, byte).
  std::unordered_map<uint64_t, uint32_t> edges_ = {};
  std::vector<std::optional<size_t>> ends_ = {};  // by node: the token that ends there
  std::vector<bool> begins_;                      // by byte: whether a token begins with it
  std::unique_ptr<Regex> word_ = {};              // matches a character of a word
};

}  // namespace pagedinfer
