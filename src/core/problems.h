#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace pagedinfer {

// The reasons why something cannot be used, in the order in which they were found. A reason that is
// found again is not repeated.
class Problems {
 public:
  void add(std::string problem) {
    if (std::ranges::find(all_, problem) == all_.end()) all_.push_back(std::move(problem));
  }
  // Calls `step`. If it throws an Error, adds its message and returns false.
  template <class Step>
  bool keep(const Step& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      add(error.what());
      return false;
    }
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_ = {};
};

// The first three messages. If there are more, a last message "OTHERS: NUMBER" stands for the rest.
inline std::vector<std::string> first_few(std::vector<std::string> messages,
                                          std::string_view others) {
  constexpr size_t kShown = 3;
  if (messages.size() <= kShown) return messages;
  const size_t count = messages.size() - kShown;
  messages.resize(kShown);
  messages.push_back(fmt::format("{}: {}", others, count));
  return messages;
}

}  // namespace pagedinfer
