#!/usr/bin/env bash
# From nothing to a tested build: installs packages, builds with the address and undefined
# behaviour sanitizers and without, and runs the tests in both (fewer random runs in the
# first). Ends with the summary of the second.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh clang-format-14

scripts/sanitize.sh address,undefined
cmake -G Ninja -B build -DPAGEDINFER_TESTS=ON -DPAGEDINFER_GRAMMAR=ON \
  -DPAGEDINFER_KEEP_KERNELS=ON >/dev/null
cmake --build build
ctest --test-dir build --output-on-failure -j "$(nproc)"
