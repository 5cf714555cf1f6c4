// Functions that kernels and the tests on the CPU share.
#pragma once

#ifdef __CUDACC__
#define KERNEL_HD __host__ __device__
#else
#define KERNEL_HD
#endif
