#include "jinja/text_builder.h"

#include <string>
#include <utility>

namespace pagedinfer::jinja {

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
