// The only file that depends on where the project lies, so that the others can be cached.
#include "paths.h"

namespace pagedinfer {

std::string source_dir() { return PAGEDINFER_SOURCE_DIR; }
std::string built_program() { return PAGEDINFER_BINARY; }

}  // namespace pagedinfer
