#include "jinja/text_search.h"

#include <cstring>
#include <string>

namespace pagedinfer::jinja {

size_t find_text(std::string_view text, std::string_view part, size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  if (part.empty()) return begin;
  // The C library's search is linear; that of std::string_view is not.
  const void* const found =
      memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last_text(std::string_view text, std::string_view part, Budget& budget) {
  if (part.size() > text.size()) return std::string_view::npos;
  budget.spend_text(text.size() + part.size());
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  const size_t found = find_text(reversed_text, reversed_part);
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

}  // namespace pagedinfer::jinja
