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
  bool show_special = false;  // special tokens are in the text as they are spelt
  bool keep_stop = false;     // the stop string that was found is the end of the text
};

// The text of one completion, token by token: what the tokens add to the prompt's text (a
// leading space is kept), as valid UTF-8. Finds stop strings as they appear in the text, also
// across tokens. The work is linear in the text for each stop string. Bytes that byte tokens
// stand for are UTF-8 as a whole, up to the next token that is none, or U+FFFD each: what looks
// like text so far may still become that.
class TextStream {
 public:
  // REQUIRES: the tokenizer outlives the stream.
  TextStream(const Tokenizer& tokenizer, std::span<const std::string> stops,
             TextOptions options = {});

  // True if a stop string ends in this token. Stop strings that end in a token pushed with
  // `may_stop` false do not count.
  bool push(TokenId token, bool may_stop = true);

  // The text, up to or with the stop string that begins first if one has been found.
  std::string finish() const { return text_.substr(0, stopped_at_ ? cut_ : text_.size()); }

 private:
  // One string that is looked for (Knuth, Morris and Pratt 1977).
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // longest proper border of each prefix, by its length
    size_t matched = 0;            // bytes of it that the text ends with
    size_t matched_before_run = 0;
  };

  // Each appends to the text, and returns where it changed.
  size_t push_byte(char byte);
  size_t end_run();
  size_t break_run();

  const Tokenizer& tokenizer_;
  const TextOptions options_;
  std::vector<Pattern> patterns_ = {};
  Utf8Stream decoder_ = {};
  std::string text_ = {};
  // The run of byte tokens at the end.
  size_t run_begin_ = 0;  // in the text
  size_t run_size_ = 0;   // tokens
  bool run_broken_ = false;
  std::optional<size_t> stopped_at_ = {};  // where the stop string begins
  size_t cut_ = 0;                         // where the text ends then
};

}  // namespace pagedinfer
