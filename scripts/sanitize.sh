#!/usr/bin/env bash
# Builds with the given sanitizers and runs all tests but scripts: scripts/sanitize.sh address,undefined
# or scripts/sanitize.sh thread.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=${1:?usage: scripts/sanitize.sh address,undefined|thread}
build=build-${sanitizers%%,*}
cmake -G Ninja -B "$build" -DPAGEDINFER_TESTS=ON -DPAGEDINFER_SANITIZE="$sanitizers" \
  -DPAGEDINFER_CUDA=OFF -DPAGEDINFER_PRECOMPILE=ON \
  -DCMAKE_CXX_FLAGS_RELEASE=-O0 >/dev/null  # with sanitizers, -O1 takes three times as long to compile
cmake --build "$build"
ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  TSAN_OPTIONS=halt_on_error=1 \
  ctest --test-dir "$build" --output-on-failure -j "$(nproc)"
