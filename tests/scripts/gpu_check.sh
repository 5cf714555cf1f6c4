#!/usr/bin/env bash
# A session on a GPU machine, rehearsed on the emulated device with tiny models: each call of
# gpu_check.sh has an empty folder, a time limit and at most 8 files to bring back, and one table
# joins the results. gpu_check.sh PROGRAM TESTS BENCH
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bundle" "$work/kept"
ln -s "$(realpath "$1")" "$work/bundle/pagedinfer"
ln -s "$(realpath "$2")" "$work/bundle/pagedinfer_tests"
ln -s "$(realpath "$3")" "$work/bundle/pagedinfer_kernel_bench"
ln -s "$(dirname "$(realpath "$1")")/lib" "$work/bundle/lib"
export PAGEDINFER_BUNDLE="$work/bundle" PAGEDINFER_CHECK_SMALL=1 PAGEDINFER_CHECK_DEVICE=cuda
export PAGEDINFER_TEST_SCALE=0.03

call() { # seconds, parts
  rm -rf "$work/out"
  mkdir "$work/out"
  timeout "$1" scripts/gpu_check.sh "$work/out" "${@:2}" >"$work/said" 2>&1 || {
    cat "$work/said" "$work/out"/*.log >&2
    echo "gpu_check.sh ${*:2} failed" >&2
    exit 1
  }
  [ "$(find "$work/out" -type f | wc -l)" -le 8 ] || { echo "too many files: ${*:2}" >&2; exit 1; }
  [ -s "$work/out/table.txt" ] || { echo "no table: ${*:2}" >&2; exit 1; }
  cp "$work/out/results.jsonl" "$work/kept/${2%%:*}.jsonl"
}
call 540 first
call 540 tests:products kernels
call 540 probe engine:steps,deterministic,sampled,cache_int8 ncu sanitizer

python3 tools/gpu/table.py "$work"/kept/*.jsonl | tee "$work/table"
for row in "^first +ok" "^tests +ok" "^kernels +ok" "^probe +ok" "^engine +ok" "^ncu +ok" \
  "decode step .*batch 1 " "kept with --deterministic" \
  "spread of the same run" "load with --deterministic" "kept with top-k and top-p" \
  "attention_decode +tiny" "product_int8 +tiny" "quantize +tiny" "product_head_deterministic +tiny" "sample_filtered +tiny" \
  "tiny head rows=2 .* [2-9]$" "tiny qkv rows=2 .* [2-9]$" "tiny head n=512 k=128 +[0-9]+ +0 +[0-9]+ +0$" \
  "throughput with the cache in int8" "decode step with the cache in int8 .*batch 4"; do
  grep -qE "$row" "$work/table" || { echo "no row: $row" >&2; exit 1; }
done

# What a run prints does not say that it failed, and a GPU that is not there does.
printf '#!/bin/sh\necho note: hello >&2\nexit "$ENDS"\n' >"$work/program"
chmod +x "$work/program"
rm "$work/bundle/pagedinfer"
cp "$work/program" "$work/bundle/pagedinfer"
ENDS=0 scripts/gpu_check.sh "$work/some" ncu >"$work/said" 2>&1
grep -qE "^ncu +ok" "$work/said"
if ENDS=1 scripts/gpu_check.sh "$work/none" ncu >"$work/said" 2>&1; then exit 1; fi
grep -q "NOT RUN: note: hello" "$work/said"
