#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace pagedinfer {

// The text of each token for FormCompiler: the bytes to which the tokenizer decodes it. The text is
// empty for special tokens, for added tokens that look like marks (<tool_call>, [INST]), and for
// tokens that the tokenizer does not have. `vocab` is the size of the model's vocabulary.
std::vector<std::string> form_vocabulary(const Tokenizer& tokenizer, int vocab);

}  // namespace pagedinfer
