#include "jinja/marked_text.h"

#include <algorithm>
#include <utility>

namespace pagedinfer::jinja {
namespace {

// The first mark that ends behind `begin`.
std::vector<Span>::const_iterator first_behind(const std::vector<Span>& marks, size_t begin) {
  return std::ranges::upper_bound(marks, begin, {}, &Span::end);
}

}  // namespace

void MarkedText::add_mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!marks.empty() && marks.back().end == begin) {
    marks.back().end = end;
  } else {
    marks.push_back({begin, end});
  }
}

void MarkedText::add(const MarkedText& from, size_t begin, size_t end) {
  const size_t start = text.size();
  text.append(from.text, begin, end - begin);
  if (from.marks.empty()) return;
  for (auto mark = first_behind(from.marks, begin); mark != from.marks.end(); ++mark) {
    if (mark->begin >= end) break;
    add_mark(start + std::max(mark->begin, begin) - begin,
             start + std::min(mark->end, end) - begin);
  }
}

void MarkedText::add(std::string_view more, bool marked) {
  if (marked) add_mark(text.size(), text.size() + more.size());
  text += more;
}

bool MarkedText::any_marked(size_t begin, size_t end) const {
  if (marks.empty()) return false;
  const auto mark = first_behind(marks, begin);
  return mark != marks.end() && mark->begin < end;
}

MarkedText MarkedText::part(size_t begin, size_t end) const {
  MarkedText result;
  result.add(*this, begin, end);
  return result;
}

MarkedText marked_text(std::string text, bool marked) {
  MarkedText result{.text = std::move(text)};
  if (marked && !result.text.empty()) result.marks.push_back({0, result.text.size()});
  return result;
}

void TextBuilder::spend(size_t more) {
  constexpr size_t kBytesPerStep = 64;
  budget_.spend_steps(1 + more / kBytesPerStep);
  budget_.spend_growth(text_.text.size(), more);
}

void TextBuilder::add(const MarkedText& from, size_t begin, size_t end) {
  spend(end - begin);
  const size_t num_marks = text_.marks.size();
  text_.add(from, begin, end);
  budget_.spend_memory((text_.marks.size() - num_marks) * sizeof(Span));
}

void TextBuilder::add(std::string_view more, bool marked) {
  spend(more.size());
  if (marked) budget_.spend_memory(sizeof(Span));
  text_.add(more, marked);
}

void TextBuilder::add_repeated(const MarkedText& from, int64_t count) {
  if (count <= 0 || from.text.empty()) return;
  size_t bytes = 0;
  if (__builtin_mul_overflow(from.text.size(), static_cast<size_t>(count), &bytes)) {
    bytes = SIZE_MAX;
  }
  spend(bytes);
  const auto times = static_cast<size_t>(count);
  if (from.marks.empty() && from.text.size() == 1) {
    text_.text.append(times, from.text[0]);
    return;
  }
  budget_.spend_steps(times);
  budget_.spend_memory(times * from.marks.size() * sizeof(Span));
  for (size_t i = 0; i < times; ++i) text_.add(from);
}

MarkedText TextBuilder::take() { return std::exchange(text_, {}); }

}  // namespace pagedinfer::jinja
