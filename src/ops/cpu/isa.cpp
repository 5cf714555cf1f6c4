#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/check.h"
#include "ops/cpu/cpu_attention.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

namespace {

// Whether the processor has tiles with products in bfloat16 and int8, and the system permits them
// to this process.
bool amx_works() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  if ((edx & kAll) != kAll) return false;
  constexpr unsigned kRoundsToBf16 = 1u << 5;  // AVX512-BF16
  if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || (eax & kRoundsToBf16) == 0) return false;
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

bool can_pack(DType compute) { return compute == DType::kBF16; }

Tuning tuning_of_processor() {
  Tuning tuning = {.tall_tiles = __builtin_cpu_is("intel") != 0};
  if (__builtin_cpu_is("amd")) {
    // Prefetched codes may fill 9 of 16 parts: the scales, inputs and sums in use need the rest.
    const long cache = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    tuning.near_bytes = static_cast<int>(cache > 0 ? cache : 32 << 10) / 16 * 9;
  }
  return tuning;
}

bool has_vnni() { return __builtin_cpu_supports("avx512vnni"); }

const ProductKernels& int8_product_of(CpuIsa isa) {
  if (isa == CpuIsa::kAmx) return kAmxInt8Product;
  if (isa == CpuIsa::kAvx512 && has_vnni()) return kVnniProduct;
  return kernels_of(isa).product_int8;
}

const ProductKernels& int4_product_of(CpuIsa isa) {
  if (isa == CpuIsa::kAmx) return kAmxInt4Product;
  if (isa == CpuIsa::kAvx512 && has_vnni()) return kVnniInt4Product;
  return kernels_of(isa).product_int4;
}

AttentionKernels attention_of(CpuIsa isa, DType cache) {
  const Kernels& kernels = kernels_of(isa);
  switch (cache) {
    case DType::kBF16: {
      AttentionKernels attention = kernels.attention_bf16;
      if (isa == CpuIsa::kAmx) attention.attend = attend_on_tiles;
      return attention;
    }
    case DType::kF16: return kernels.attention_f16;
    case DType::kI8: return kernels.attention_int8;
    case DType::kF32: return kernels.attention_float;
    case DType::kI32:
    case DType::kI4: break;
  }
  CHECK(false);
}

}  // namespace pagedinfer
