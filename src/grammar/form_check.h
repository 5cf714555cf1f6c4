#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/answer_form.h"
#include "core/result.h"
#include "grammar/schema_check.h"

namespace pagedinfer {

constexpr size_t kMaxGrammarBytes = 64 << 10;
constexpr int kMaxGrammarDepth = 64;          // brackets within brackets
constexpr size_t kMaxChoiceBytes = 64 << 10;  // of all choices
constexpr size_t kMaxCallBytes = 256 << 10;   // of all names and schemas

// The call of a function: what stands before its arguments, as rules, and their schema.
struct CheckedCall {
  std::string before;
  RewrittenSchema schema;
};

// A form as the library gets it: a JSON schema, rules that begin with "root", or one of several
// calls, each an object of a name and arguments.
struct CheckedForm {
  std::optional<RewrittenSchema> schema = {};
  std::string rules = {};
  std::vector<CheckedCall> calls = {};
};

// Checks a form against the limits and against what is supported, before the library sees it, which
// has neither a limit nor an error for much of it. REQUIRES: the form is not free, and its texts
// are UTF-8.
Result<CheckedForm> check_form(const AnswerForm& form);

}  // namespace pagedinfer
