#!/usr/bin/env bash
# From nothing to a tested build: installs packages, builds, and runs all tests but those labelled
# slow. Ends with the tests that took longest and those that were not run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh clang-format-14

cmake -G Ninja -B build -DPAGEDINFER_TESTS=ON -DPAGEDINFER_GRAMMAR=ON \
  -DPAGEDINFER_UNITY=ON -DPAGEDINFER_KEEP_KERNELS=ON >/dev/null
cmake --build build
ctest --test-dir build --output-on-failure -j "$(nproc)" -LE slow

echo "The longest tests:"
awk '/^---$/ { exit } { cost = $NF; NF -= 2; printf "%6.1f s  %s\n", cost, $0 }' \
  build/Testing/Temporary/CTestCostData.txt | sort -rn | sed -n 1,20p
echo "Not run, but by ctest --test-dir build -L slow:"
ctest --test-dir build -L slow -N | sed -n 's/^ *Test *#[0-9]*: /  /p'
