// y[m][n] = x[m] . w[n], weights in place as the file has them (row-major, one row per output).
#pragma once

#include "ops/cpu/matmul_bf16.h"
#include "ops/cpu/matmul_float.h"
