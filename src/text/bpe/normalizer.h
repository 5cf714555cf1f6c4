#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// A step of normalization: UTF-8 to UTF-8.
using NormalizerStep = std::function<std::string(std::string)>;

// Canonical composition (NFC) by Unicode 9, as in the Hugging Face tokenizers library.
NormalizerStep nfc();
// Replaces every occurrence of `from`, left to right. REQUIRES: `from` is not empty.
NormalizerStep replace_all(std::string from, std::string to);
// Prepends `prefix` to every text that is not empty.
NormalizerStep prepend(std::string prefix);

// Applies steps in order.
class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  std::string apply(std::string_view text) const {
    std::string result(text);
    for (const NormalizerStep& step : steps_) result = step(std::move(result));
    return result;
  }

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace pagedinfer
