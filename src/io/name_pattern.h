#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace pagedinfer {

// A regular expression over the names of a model's modules or tensors, as Python's `re` reads it.
class NamePattern {
 public:
  enum class Extent : uint8_t { kWholeName, kBeginning };

  // Throws Error if it is none.
  explicit NamePattern(std::string_view pattern, Extent extent = Extent::kWholeName);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  // Whether the whole name matches, or its beginning (re.fullmatch, re.match). Throws Error if
  // finding out takes too long.
  bool matches(std::string_view name) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace pagedinfer
