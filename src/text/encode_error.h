#pragma once

#include "core/error.h"

namespace pagedinfer {

// A text that a tokenizer cannot encode. It is the text's fault: others can be encoded.
struct EncodeError : Error {
  using Error::Error;
};

}  // namespace pagedinfer
