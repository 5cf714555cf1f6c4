#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/budget.h"

namespace pagedinfer::jinja {

// The bytes [begin, end) of a text.
struct Span {
  size_t begin, end;

  bool operator==(const Span&) const = default;
};

// UTF-8 text that remembers which of its bytes people wrote. `marks` are sorted, not empty, and
// neither touch nor overlap. Text without marks costs nothing more than a string.
struct MarkedText {
  std::string text = {};
  std::vector<Span> marks = {};

  // Appends text with the marks of its source. REQUIRES: `begin` <= `end` <= the size of `from`.
  void add(const MarkedText& from) { add(from, 0, from.text.size()); }
  void add(const MarkedText& from, size_t begin, size_t end);
  void add(std::string_view more, bool marked);
  void add(std::string_view unmarked) { text += unmarked; }

  // Whether a byte of [begin, end) is marked.
  bool any_marked(size_t begin, size_t end) const;
  MarkedText part(size_t begin, size_t end) const;

 private:
  void add_mark(size_t begin, size_t end);
};

// All of `text` is marked if `marked`.
MarkedText marked_text(std::string text, bool marked);

// A growing text. Each addition is spent from the budget before memory is taken.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  // REQUIRES: `begin` <= `end` <= the size of `from`.
  void add(const MarkedText& from, size_t begin, size_t end);
  void add(const MarkedText& from) { add(from, 0, from.text.size()); }
  void add(std::string_view more, bool marked = false);
  // `count` times `from`; nothing if `count` is negative.
  void add_repeated(const MarkedText& from, int64_t count);

  bool empty() const { return text_.text.empty(); }
  // The text; the builder is empty then.
  MarkedText take();

 private:
  void spend(size_t more);

  Budget& budget_;
  MarkedText text_ = {};
};

}  // namespace pagedinfer::jinja
