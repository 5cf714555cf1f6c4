// Marks functions that run in kernels and, for their tests, on the host.
#pragma once

#ifdef __CUDACC__
#define KERNEL_HD __host__ __device__
#else
#define KERNEL_HD
#endif

namespace pagedinfer::kernels {

KERNEL_HD constexpr int min_of(int a, int b) { return a < b ? a : b; }
KERNEL_HD constexpr int max_of(int a, int b) { return a > b ? a : b; }
// a / b, rounded up. REQUIRES: a >= 0, b > 0.
KERNEL_HD constexpr int ceil_div(int a, int b) { return a / b + (a % b != 0); }

}  // namespace pagedinfer::kernels
