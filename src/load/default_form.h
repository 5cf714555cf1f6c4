// The form of answers to lines that do not name a form.
#pragma once

#include <string>

#include "core/answer_form.h"
#include "settings/config.h"

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

}  // namespace pagedinfer
