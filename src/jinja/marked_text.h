#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace pagedinfer::jinja
