#include "ops/cuda/machine_code.h"

#include <charconv>

namespace pagedinfer {
namespace {

// Of one word: a number, perhaps "a" (for this capability only) or "f" (for its family), perhaps
// "-real" or "-virtual".
bool has_code(std::string_view word, int major, int minor) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc()) return true;
  if (word.ends_with("-virtual") || number / 10 != major) return false;
  const bool is_exact = end != word.data() + word.size() && *end == 'a';
  return is_exact ? number % 10 == minor : number % 10 <= minor;
}

}  // namespace

bool has_machine_code(std::string_view architectures, int major, int minor) {
  constexpr std::string_view kBetween = ", ";
  while (true) {
    const size_t end = architectures.find(kBetween);
    if (has_code(architectures.substr(0, end), major, minor)) return true;
    if (end == architectures.npos) return false;
    architectures.remove_prefix(end + kBetween.size());
  }
}

}  // namespace pagedinfer
