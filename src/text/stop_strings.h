#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode/utf8.h"

namespace pagedinfer {

struct TextOptions {
  bool show_special = false;  // the text includes the spelling of special tokens
  bool keep_stop = false;     // the text includes the stop string that ended it
};

// The text of one completion, token by token, as valid UTF-8: the text that the tokens add to the
// prompt (a leading space is kept). Finds stop strings, also across tokens, in time linear in the
// text for each. A run of byte tokens is decoded as one piece: if it is not UTF-8, each of its
// bytes becomes U+FFFD, so text of the current run may still change.
class TextStream {
 public:
  // REQUIRES: the tokenizer outlives the stream.
  TextStream(const Tokenizer& tokenizer, std::span<const std::string> stops,
             TextOptions options = {});

  // Appends a token. True if a stop string ends in it; always false if `may_stop` is false, and
  // stop strings that end in this token are then ignored for good.
  bool push(TokenId token, bool may_stop = true);

  // The text, cut at (with keep_stop: behind) the stop string that begins first, if one was found.
  std::string finish() const { return text_.substr(0, stopped_at_ ? cut_ : text_.size()); }

  // For each token, the characters of the text before it; a token that begins inside a character
  // counts as beginning with it. Leaves out the tokens of which finish() shows nothing because of a
  // stop string.
  std::vector<int> offsets() const;

 private:
  // A stop string and the state of its search (Knuth, Morris and Pratt 1977).
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // longest proper border of each prefix, by its length
    size_t matched = 0;            // bytes of `text` that the text ends with
    size_t matched_before_run = 0;
  };

  // Each changes the end of text_ and returns the offset of the first changed byte.
  size_t push_byte(char byte);
  size_t end_run();
  size_t break_run();

  const Tokenizer& tokenizer_;
  const TextOptions options_;
  std::vector<Pattern> patterns_ = {};
  Utf8Stream decoder_ = {};
  std::string text_ = {};
  std::vector<size_t> begins_ = {};  // of the tokens, in text_
  // The run of byte tokens at the end of the text.
  size_t run_begin_ = 0;          // in text_
  std::vector<size_t> run_ = {};  // its tokens, by their places in begins_
  bool run_broken_ = false;
  std::optional<size_t> stopped_at_ = {};  // where the stop string begins
  size_t cut_ = 0;                         // where finish() cuts the text
};

}  // namespace pagedinfer
