#include "text/stop_strings.h"

#include "core/utf8.h"

namespace pagedinfer {
namespace {

// Matched bytes of `pattern` after the byte `next`, given `matched` before it.
size_t advance(const std::string& pattern, const std::vector<size_t>& fallback, size_t matched,
               char next) {
  while (matched > 0 && (matched == pattern.size() || pattern[matched] != next)) {
    matched = fallback[matched];
  }
  return pattern[matched] == next ? matched + 1 : 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::string> stops,
                       TextOptions options)
    : tokenizer_(tokenizer), options_(options) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<size_t> fallback(stop.size() + 1, 0);
    for (size_t i = 1; i < stop.size(); ++i) {
      fallback[i + 1] = advance(stop, fallback, fallback[i], stop[i]);
    }
    patterns_.push_back({stop, std::move(fallback)});
  }
}

size_t TextStream::push_byte(char byte) {
  if (run_.empty()) {
    run_begin_ = text_.size();
    for (Pattern& pattern : patterns_) pattern.matched_before_run = pattern.matched;
  }
  run_.push_back(begins_.size() - 1);
  const size_t before = text_.size();
  if (run_broken_) {
    text_ += kReplacement;
  } else if (!decoder_.push({&byte, 1}, text_)) {
    return break_run();
  }
  return before;
}

size_t TextStream::end_run() {
  const size_t changed = !run_.empty() && decoder_.inside_character() ? break_run() : text_.size();
  run_.clear();
  run_broken_ = false;
  return changed;
}

size_t TextStream::break_run() {
  run_broken_ = true;
  decoder_ = {};
  text_.resize(run_begin_);
  for (const size_t token : run_) {
    begins_[token] = text_.size();
    text_ += kReplacement;
  }
  for (Pattern& pattern : patterns_) pattern.matched = pattern.matched_before_run;
  return run_begin_;
}

std::vector<int> TextStream::offsets() const {
  std::vector<int> offsets;
  size_t at = 0;
  int num_characters = 0;
  for (const size_t begin : begins_) {
    if (stopped_at_ && begin >= cut_) break;
    for (; at < begin; at += utf8_size(text_[at])) ++num_characters;
    offsets.push_back(num_characters);
  }
  return offsets;
}

bool TextStream::push(TokenId token, bool may_stop) {
  std::string_view bytes = tokenizer_.token_bytes(token);
  if (bytes.empty() && options_.show_special) bytes = tokenizer_.special_text(token);
  size_t before = text_.size();
  begins_.push_back(before);
  if (tokenizer_.is_byte(token)) {
    before = push_byte(bytes.front());
  } else if (!bytes.empty()) {
    before = end_run();
    const bool breaks = decoder_.inside_character() && !continues_character(bytes.front());
    begins_.back() = text_.size() + (breaks ? kReplacement.size() : 0);
    decoder_.push(bytes, text_);
  }
  bool stopped = false;
  for (Pattern& pattern : patterns_) {
    for (size_t i = before; i < text_.size(); ++i) {
      pattern.matched = advance(pattern.text, pattern.fallback, pattern.matched, text_[i]);
      if (pattern.matched < pattern.text.size() || !may_stop) continue;
      const size_t begin = i + 1 - pattern.text.size();
      stopped = true;
      if (stopped_at_ && (*stopped_at_ < begin || (*stopped_at_ == begin && cut_ <= i))) continue;
      stopped_at_ = begin;
      cut_ = options_.keep_stop ? i + 1 : begin;
    }
  }
  return stopped;
}

}  // namespace pagedinfer
