#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace pagedinfer {

// The text of each token as FormCompiler wants it: the bytes that the tokenizer decodes it to.
// Empty for special tokens, for added ones that look like marks (<tool_call>, [INST]) and for those
// that only the model has. `vocab` is the model's.
std::vector<std::string> form_vocabulary(const Tokenizer& tokenizer, int vocab);

}  // namespace pagedinfer
