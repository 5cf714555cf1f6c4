#!/usr/bin/env bash
# From nothing to a tested build: installs packages, builds and runs the tests. The same with
# sanitizers, and fewer random runs: scripts/sanitize.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh

cmake -G Ninja -B build -DPAGEDINFER_TESTS=ON >/dev/null
cmake --build build
ctest --test-dir build --output-on-failure -j "$(nproc)"
