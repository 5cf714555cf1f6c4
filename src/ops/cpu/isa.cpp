#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

namespace {

// Whether the processor has tiles with bfloat16 products and the system permits them to this
// process.
bool amx_works() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if (!(edx & kAmxBf16) || !(edx & kAmxTile)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::vector<CpuIsa> available_isas() {
  std::vector<CpuIsa> isas = {CpuIsa::kPortable};
  if (__builtin_cpu_supports("x86-64-v3")) isas.push_back(CpuIsa::kAvx2);
  if (__builtin_cpu_supports("x86-64-v4")) {
    isas.push_back(CpuIsa::kAvx512);
    if (amx_works()) isas.push_back(CpuIsa::kAmx);
  }
  return isas;
}

const char* name_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable: return "portable";
    case CpuIsa::kAvx2: return "avx2";
    case CpuIsa::kAvx512: return "avx512";
    case CpuIsa::kAmx: return "amx";
  }
  return "";
}

const Kernels& kernels_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable: return kPortableKernels;
    case CpuIsa::kAvx2: return kAvx2Kernels;
    case CpuIsa::kAvx512:
    case CpuIsa::kAmx: return kAvx512Kernels;
  }
  return kPortableKernels;
}

}  // namespace pagedinfer
