// What forms of answers need before a run: the form of lines that name none, and a vocabulary.
#pragma once

#include <string>
#include <vector>

#include "core/answer_form.h"
#include "settings/config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The form that --json-schema, --regex, --choices or --grammar gives; without these flags answers
// are free. Reads the file that the flag names. Throws Error naming the flag if the file cannot be
// read. REQUIRES: check_rules(config) passed.
AnswerForm form_of_flags(const Config& config);

// Compiles the form of the flags. Throws Error naming the flag if the form cannot be read, if it is
// invalid, or if this build supports no forms. REQUIRES: check_rules(config) passed.
void check_form_of_flags(const Config& config);

// The given one of these flags, with its value; "" if none was given.
std::string flag_of_form(const Config& config);

// The text of each token for FormCompiler: the bytes to which the tokenizer decodes it. The text is
// empty for special tokens, for added tokens that look like marks (<tool_call>, [INST]), and for
// tokens that the tokenizer does not have. `vocab` is the size of the model's vocabulary.
std::vector<std::string> form_vocabulary(const Tokenizer& tokenizer, int vocab);

}  // namespace pagedinfer
