#!/usr/bin/env bash
# scripts/ray_data.py on a cluster of this machine gives what one run gives: ray_data.sh PROGRAM
# Exit code 77: there is no Ray. PYTHON names another interpreter.
set -euo pipefail
program=$(realpath "$1") script=$(realpath "$(dirname "$0")/../../scripts/ray_data.py")
python=${PYTHON:-python3}
without_ray=$(mktemp -d)
echo "raise ImportError" > "$without_ray/ray.py"
PYTHONPATH=$without_ray "$python" "$script" --help | grep -q -- --shards
rm -r "$without_ray"
"$python" -c "import ray.data" 2> /dev/null || { echo 'SKIPPED: there is no ray[data]'; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

for i in $(seq 20); do
  echo "{\"prompt\": \"Nora has $i apples\", \"max_tokens\": $((i % 7 + 1))}"
done > in.jsonl
echo "no JSON" >> in.jsonl
code=0
"$program" run --input in.jsonl --output single --quiet || code=$?
[ "$code" -eq 2 ]

"$program" run --input in.jsonl --shard 1/3 --limit 9 --quiet  # left by an earlier attempt
"$python" "$script" --shards 3 --program "$program" in.jsonl --quiet
cmp in.completions.jsonl single
