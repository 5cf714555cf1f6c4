#!/usr/bin/env bash
# Builds with the thread sanitizer and runs the tests of what uses threads: the engine with its
# intake, requests, output, and the thread pool. Ends with the test runner's own summary; a data race
# ends it at once.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake -G Ninja -B build-thread -DPAGEDINFER_TESTS=ON -DPAGEDINFER_SANITIZE=thread \
  -DPAGEDINFER_CUDA=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O0 >/dev/null
cmake --build build-thread --target pagedinfer_tests
folders=(engine io ops/cpu output request)
files=$(printf '*/tests/%s/*,' "${folders[@]}")
TSAN_OPTIONS=halt_on_error=1 build-thread/tests/pagedinfer_tests --source-file="${files%,}"
