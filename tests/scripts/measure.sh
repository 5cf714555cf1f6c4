#!/usr/bin/env bash
# tools/measure reads what the program writes today: its cheap measurements, small: measure.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
measure() { # a pattern of the output, then the measurement
  python3 tools/measure "${@:2}" --program "$program" >"$work/found"
  grep -qE -- "$1" "$work/found" || { echo "${*:2}: no $1 in: $(cat "$work/found")" >&2; exit 1; }
}
python3 tools/goldens/make_dummy_checkpoint.py --config datasets/story-llama --output "$work/model"
measure '^ +256 +[0-9]+ .* ms +[0-9.]+$' demo --repeats 1
measure '^ +20 lines: peak [0-9.]+ MiB' memory --lines 5 20
measure '"lines": 9, .*"requests_per_second"' million_lines --counts 5,9 --orders completion
measure '"off_over_on": [0-9.]+' sharing head --repeats 1 --requests 3
measure '"plan_mib": [0-9.]+' loading --model "$work/model" --repeats 1
