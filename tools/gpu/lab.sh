#!/usr/bin/env bash
# Builds the benchmarks of kernels by nvcc alone: lab.sh PROGRAM [FLAG OF NVCC ...]
#
# For a machine that has nvcc and the headers of CUDA but none of the project's libraries: variants
# of kernels are then built and compared in one session. The headers of fmt are those that
# gpu_bundle.sh has put into build-gpu/include. Where PAGEDINFER_LAB_OBJECTS is the folder
# CMakeFiles of a build, the library's objects are taken from there, so that a test can link what is
# listed here in seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."
program="$1"
shift
includes=(-I. -Isrc -Ibench)
[ ! -d build-gpu/include ] || includes+=(-Ibuild-gpu/include)
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for header in /usr/local/cuda/include "$packages"/nvidia/*/include; do
  [ ! -e "$header/cublasLt.h" ] || { includes+=(-I"$header"); break; }
done
cat >"$program.cpp" <<'CODE'
#include "core/build_facts.h"
std::string_view pagedinfer::build_commit() { return "lab"; }
CODE
host=src/ops/cuda
sources=(bench/kernel_bench.cpp "$program.cpp" kernels/*.cu kernels/attention_plan.cpp
  "$host"/{cublas_lt,device_error,event_timer,graph_capture,product_cache}.cpp
  "$host"/{product_library,product_proof,product_timing,products}.cpp)
flags=(-std=c++20 -O3 -arch=sm_90a -DFMT_HEADER_ONLY "${includes[@]}"
  "-diag-suppress=20012,20013,20014,20015" "$@")
mkdir -p "$program.objects"
libraries=(-ldl)
[ -z "${PAGEDINFER_LAB_OBJECTS:-}" ] || libraries+=(-lfmt)  # which its objects do not contain
compile() { # objects' folder, source, flags; g++ alone sees C++, and fmt must not take it for nvcc
  local host=() built
  for built in "${PAGEDINFER_LAB_OBJECTS:-/nowhere}"/pagedinfer_{kernels,core}.dir/"$2.o"; do
    [ ! -e "$built" ] || { cp "$built" "$1/"; return; }
  done
  [ "${2##*.}" = cu ] || host=(-Xcompiler=-U__NVCC__)
  nvcc "${@:3}" "${host[@]}" -c -o "$1/$(basename "$2").o" "$2"
}
export -f compile
# shellcheck disable=SC2016
printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -I '{}' bash -c 'compile "$@"' bash \
  "$program.objects" '{}' "${flags[@]}"
nvcc -o "$program" "$program.objects"/*.o "${libraries[@]}"
