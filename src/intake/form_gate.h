#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "engine/pull.h"
#include "grammar/form_store.h"

namespace pagedinfer {

// What a FormGate stands in front of.
struct FormGateParts {
  std::function<Pull(Wait wait, IntakeItem& item)> pull;  // waits as EnginePorts::next
  FormStore* forms;                   // null: forms of answers are not looked at
  std::function<void()> before_wait;  // called before a wait for a form
};

// Holds a line back until the form of its answer is compiled, and lets the lines behind it pass. A
// line whose form cannot be had becomes an error. Holds a bounded number of lines; while there is
// no place for one more, the lines behind wait too.
class FormGate {
 public:
  // The maximum number of lines that it holds. It takes one more line while they hold fewer tokens
  // of memory than kMaxTokens.
  static constexpr int kMaxLines = 256;
  static constexpr int64_t kMaxTokens = int64_t{4} << 20;

  explicit FormGate(FormGateParts parts) : parts_(std::move(parts)) {}

  // As EnginePorts::next. A static batch does not wait for the lines that it holds.
  Pull next(Wait wait, EngineLine& line);

 private:
  struct Held {
    IntakeItem item;
    int64_t num_tokens;
    FormStore::Ticket form;
  };

  bool take_ready(EngineLine& line);
  bool has_place() const;
  void hold(IntakeItem& item);
  Pull wait_for_form(Wait wait, Pull pulled, EngineLine& line);

  const FormGateParts parts_;
  std::list<Held> held_ = {};  // in the order in which they came
  int64_t num_tokens_ = 0;     // of these
  bool waits_ = false;         // since a line came or went
};

}  // namespace pagedinfer
