#pragma once

#include <stdexcept>

namespace pagedinfer {

// The run cannot continue because of something outside the program: a missing file, a
// malformed checkpoint, too little memory. Caught once, in main(). The text names the file,
// the thing, what was found and what was expected.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The device can do no more work in this process: trying a step again is useless.
struct DeviceLost : Error {
  using Error::Error;
};

}  // namespace pagedinfer
