// The program that these tests start is the one on the emulated device, unless another one is
// named.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kNamed = setenv("PAGEDINFER_TEST_PROGRAM", PAGEDINFER_EMULATED, 0);

}  // namespace
