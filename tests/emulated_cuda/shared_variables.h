// The __shared__ variables of kernels. The emulation declares them static, and finds them in the
// program's own table of symbols: the writable variables of functions of pagedinfer::kernels. So
// host code there has no static variables, and kernels are in unnamed namespaces.
#pragma once

#include <span>
#include <vector>

namespace emulated {

using SharedVariables = std::vector<std::span<unsigned char>>;

// Those in the kernel's source file.
const SharedVariables& shared_variables_of(const void* kernel);

}  // namespace emulated
