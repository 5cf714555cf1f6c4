#pragma once

#include <cstdint>
#include <string>

#include "core/shared_list.h"

namespace pagedinfer {

enum class FormKind : uint8_t { kFree, kJson, kJsonSchema, kRegex, kChoices, kGrammar, kCall };

// The form that a completion must have. Copies share the texts.
struct AnswerForm {
  FormKind kind = FormKind::kFree;
  bool whitespace = false;  // JSON may have white space between its parts
  // kChoices: the choices. kJsonSchema, kRegex, kGrammar: one text, which is the schema as JSON,
  // the expression or the rules. kCall: two texts for each function that may be called, its name
  // and the schema of its arguments.
  SharedList<std::string> texts = {};

  bool is_free() const { return kind == FormKind::kFree; }
  bool operator==(const AnswerForm&) const = default;
};

}  // namespace pagedinfer
