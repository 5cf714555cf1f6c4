#!/usr/bin/env bash
# Feeds random bytes to one of the targets in fuzz/ (`tools/checks/fuzz.sh request_line 600`: for ten
# minutes), from its seeds in fuzz/seeds/ and what earlier runs have found. Needs clang++. More
# arguments go to libFuzzer. Bytes that break something stay in build-fuzz/TARGET-*.
set -euo pipefail
cd "$(dirname "$0")/../.."
target="${1:?TARGET: one of $(cd fuzz && echo *.cpp)}" seconds="${2:?SECONDS}"
shift 2

cmake -G Ninja -S . -B build-fuzz -DCMAKE_CXX_COMPILER="${CXX:-clang++}" -DPAGEDINFER_FUZZ=ON \
  -DPAGEDINFER_TESTS=OFF -DPAGEDINFER_CUDA=OFF >/dev/null
cmake --build build-fuzz --target "fuzz_$target"
corpus="build-fuzz/corpus/$target"
mkdir -p "$corpus"
flags=(-max_total_time="$seconds" -timeout=10 -max_len=65536 -print_final_stats=1
       -artifact_prefix="build-fuzz/$target-")
[ ! -e "fuzz/$target.dict" ] || flags+=(-dict="fuzz/$target.dict")
exec "build-fuzz/fuzz/fuzz_$target" "${flags[@]}" "$@" "$corpus" "fuzz/seeds/$target"
