#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace pagedinfer::jinja {

// A template cannot be parsed, or cannot be rendered with some variables: it is not an Error, for
// the run goes on with other lines.
struct TemplateError : std::runtime_error {
  enum class Reason {
    kFailed,     // as Python would fail
    kRaised,     // the template called raise_exception(): its message is all there is
    kLimit,      // too many steps, too much text, too deep
    kUndefined,  // what is not there was used, with Undefined::kFails
  };

  explicit TemplateError(const std::string& message, int at_line = 0,
                         Reason its_reason = Reason::kFailed)
      : std::runtime_error(message), line(at_line), reason(its_reason) {}

  int line;  // of the template, from 1; 0 = not known
  Reason reason;
};

// The limits of one rendering. A template that exceeds one ends with a TemplateError.
struct Limits {
  int64_t max_steps = 20'000'000;       // nodes evaluated, items handled, bytes read
  int max_depth = 1'000;                // nodes being evaluated, one inside the other
  size_t max_text = size_t{64} << 20;   // bytes of the output, and of any one string
  size_t max_memory = size_t{1} << 30;  // bytes of all values ever made
};

// The rest of the limits during a rendering.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void spend_steps(size_t steps = 1) {
    steps_ += static_cast<int64_t>(steps);
    if (steps_ > limits_.max_steps) fail(std::to_string(limits_.max_steps) + " steps");
  }
  // Before `bytes` of text are compared, copied or searched.
  void spend_reading(size_t bytes) {
    constexpr size_t kBytesPerStep = 8;
    spend_steps(bytes / kBytesPerStep);
  }
  // Before each character of `bytes` of text is looked at.
  void spend_characters(size_t bytes) {
    constexpr size_t kBytesPerStep = 2;
    spend_steps(bytes / kBytesPerStep);
  }
  // Before a string of `bytes` is made.
  void spend_text(size_t bytes) { spend_growth(0, bytes); }
  // Before `more` bytes are added to a text of `size` bytes.
  void spend_growth(size_t size, size_t more) {
    if (more > limits_.max_text || size > limits_.max_text - more) {
      fail(std::to_string(limits_.max_text) + " bytes of text");
    }
    spend_memory(more);
  }
  // Before `count` values are kept.
  void spend_values(size_t count) {
    if (count > limits_.max_memory) fail_memory();
    spend_steps(count);
    constexpr size_t kBytes = 32;
    spend_memory(count * kBytes);
  }
  // Before `count` values with an object each are made.
  void spend_objects(size_t count) {
    constexpr size_t kBytes = 128;
    if (count > limits_.max_memory / kBytes) fail_memory();
    spend_memory(count * kBytes);
  }
  void spend_memory(size_t bytes) {
    memory_ += bytes;
    if (memory_ > limits_.max_memory) fail_memory();
  }
  // While this lives, evaluation is one level deeper.
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

 private:
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
