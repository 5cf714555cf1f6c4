#include "text/stop_strings.h"

#include <algorithm>

namespace pagedinfer {
namespace {

// How much of `pattern` is matched after `next`, when `matched` bytes of it were before.
size_t advance(const std::string& pattern, const std::vector<size_t>& fallback, size_t matched,
               char next) {
  while (matched > 0 && (matched == pattern.size() || pattern[matched] != next))
    matched = fallback[matched];
  return pattern[matched] == next ? matched + 1 : 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::string> stops)
    : tokenizer_(tokenizer) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<size_t> fallback(stop.size() + 1, 0);
    for (size_t i = 1; i < stop.size(); ++i)
      fallback[i + 1] = advance(stop, fallback, fallback[i], stop[i]);
    patterns_.push_back({stop, std::move(fallback)});
  }
}

bool TextStream::push(TokenId token, bool may_stop) {
  const size_t before = text_.size();
  decoder_.push(tokenizer_.token_bytes(token), text_);
  bool stopped = false;
  for (Pattern& pattern : patterns_) {
    for (size_t i = before; i < text_.size(); ++i) {
      pattern.matched = advance(pattern.text, pattern.fallback, pattern.matched, text_[i]);
      if (pattern.matched < pattern.text.size() || !may_stop) continue;
      const size_t begin = i + 1 - pattern.text.size();
      stopped_at_ = std::min(stopped_at_.value_or(begin), begin);
      stopped = true;
    }
  }
  return stopped;
}

}  // namespace pagedinfer
