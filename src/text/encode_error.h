#pragma once

#include "core/error.h"

namespace pagedinfer {

// The tokenizer cannot encode one text (a limit of time or memory); it can encode others.
struct EncodeError : Error {
  using Error::Error;
};

}  // namespace pagedinfer
