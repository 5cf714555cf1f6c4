#!/usr/bin/env bash
# The lab of a GPU machine has all that its benchmarks need: it links, with the objects of this
# build, and starts. gpu_lab.sh OBJECTS
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v nvcc >/dev/null || { echo "SKIPPED: no nvcc in PATH"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PAGEDINFER_LAB_OBJECTS="$1" tools/gpu/lab.sh "$work/bench" -O0
built=$(find "$work/bench.objects" -name '*.o' | wc -l)
[ "$built" -ge 25 ] || { echo "$built objects" >&2; exit 1; }
# It has no GPU, and says so in its own words.
if "$work/bench" --small gate >"$work/said" 2>&1; then exit 0; fi
grep -q "^pagedinfer_kernel_bench: " "$work/said" || { cat "$work/said" >&2; exit 1; }
