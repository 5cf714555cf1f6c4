// The only file that depends on where the project lies, so that the others can be cached.
#include "tests/support/paths.h"

#include <cstdlib>

namespace pagedinfer {

// A copy of the tests on another machine is told where the rest is.
std::string source_dir() {
  const char* const given = std::getenv("PAGEDINFER_TEST_SOURCE");
  return given != nullptr ? given : PAGEDINFER_SOURCE_DIR;
}
std::string built_program() {
  const char* const given = std::getenv("PAGEDINFER_TEST_PROGRAM");
  return given != nullptr ? given : PAGEDINFER_BINARY;
}

}  // namespace pagedinfer
