#pragma once

#include <cstdint>
#include <string_view>

#include "jinja/budget.h"
#include "jinja/marked_text.h"

namespace pagedinfer::jinja {

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
