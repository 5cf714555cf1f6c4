// The form of answers to lines that name none.
#pragma once

#include <string>

#include "core/answer_form.h"
#include "settings/config.h"

namespace pagedinfer {

// The form that flags give: --json-schema, --regex, --choices or --grammar; free without them.
// Reads the file that they name. Throws Error that names the flag if it cannot be read. REQUIRES:
// check_rules() has passed the configuration.
AnswerForm form_of_flags(const Config& config);

// Compiles that form. Throws Error that names the flag if it cannot be read, if it is a bad one or
// if no form can be kept. REQUIRES: as form_of_flags().
void check_form_of_flags(const Config& config);

// The flag of them that was given, with its value; "" if none was.
std::string flag_of_form(const Config& config);

}  // namespace pagedinfer
