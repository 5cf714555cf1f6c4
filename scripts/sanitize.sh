#!/usr/bin/env bash
# Builds with the given sanitizers and runs all tests but scripts: scripts/sanitize.sh address,undefined
# or scripts/sanitize.sh thread. scripts/sanitize.sh race runs the GPU's kernels on the emulated device
# and reports accesses that no barrier of their block orders, and misaligned ones.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=${1:?usage: scripts/sanitize.sh address,undefined|thread|race}
build=build-${sanitizers%%,*} target=all option=PAGEDINFER_SANITIZE=$sanitizers
if [ "$sanitizers" = race ]; then
  target=pagedinfer_kernel_tests option=PAGEDINFER_SANITIZE_KERNELS=thread,alignment
fi
cmake -G Ninja -B "$build" -DPAGEDINFER_TESTS=ON "-D$option" \
  -DPAGEDINFER_CUDA=OFF -DPAGEDINFER_PRECOMPILE=ON -DPAGEDINFER_UNITY=ON \
  -DCMAKE_CXX_FLAGS_RELEASE=-O0 >/dev/null  # with sanitizers, -O1 takes three times as long to compile
cmake --build "$build" --target "$target"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  TSAN_OPTIONS=halt_on_error=1
if [ "$sanitizers" = race ]; then
  exec "$build/tests/$target"
fi
ctest --test-dir "$build" --output-on-failure -j "$(nproc)"
