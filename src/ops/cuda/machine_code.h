#pragma once

#include <string_view>

namespace pagedinfer {

// Whether a build for `architectures`, a list in the words of CMAKE_CUDA_ARCHITECTURES with ", "
// between them, has machine code for GPUs of compute capability major.minor. On others the driver
// has to make it first, from the code for virtual architectures. True of a list with words whose
// meaning depends on the compiler.
bool has_machine_code(std::string_view architectures, int major, int minor);

}  // namespace pagedinfer
