#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "text/jinja/template_error.h"

namespace pagedinfer::jinja {

// How much work one rendering may be. A template that needs more ends with a TemplateError.
struct Limits {
  int64_t max_steps = 20'000'000;       // nodes evaluated and items handled
  int max_depth = 1'000;                // nodes being evaluated, one inside the other
  size_t max_text = size_t{64} << 20;   // bytes of the output, and of any one string
  size_t max_memory = size_t{1} << 30;  // bytes of all values ever made
};

// What is left of the limits of a rendering.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void spend_steps(size_t steps = 1) {
    steps_ += static_cast<int64_t>(steps);
    if (steps_ > limits_.max_steps) fail(std::to_string(limits_.max_steps) + " steps");
  }
  // Before a string of `bytes` is made.
  void spend_text(size_t bytes) {
    if (bytes > limits_.max_text) fail(std::to_string(limits_.max_text) + " bytes of text");
    spend_memory(bytes);
  }
  // Before `count` values are kept.
  void spend_values(size_t count) {
    if (count > limits_.max_memory) fail_memory();
    spend_steps(count);
    constexpr size_t kBytes = 32;
    spend_memory(count * kBytes);
  }
  // What is evaluated inside something else is one level deeper while this lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ <= budget_.limits_.max_depth) return;
      --budget_.depth_;
      throw TemplateError("the template is nested too deep", 0, TemplateError::Reason::kLimit);
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

  const Limits& limits() const { return limits_; }

 private:
  void spend_memory(size_t bytes) {
    memory_ += bytes;
    if (memory_ > limits_.max_memory) fail_memory();
  }
  [[noreturn]] void fail_memory() const {
    fail(std::to_string(limits_.max_memory) + " bytes of memory");
  }
  [[noreturn]] static void fail(const std::string& most) {
    throw TemplateError("the template needs more than " + most, 0, TemplateError::Reason::kLimit);
  }

  Limits limits_;
  int64_t steps_ = 0;
  size_t memory_ = 0;
  int depth_ = 0;
};

}  // namespace pagedinfer::jinja
