#!/usr/bin/env bash
# pagedinfer.ray on a cluster of this machine gives what one run gives: ray_data.sh PROGRAM
# Exit code 77: there is no Ray. PYTHON names another interpreter.
set -euo pipefail
program=$(realpath "$1") python=${PYTHON:-python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PYTHONPATH=$(realpath "$(dirname "$0")/../../python")
export PYTHONPATH PAGEDINFER_BINARY="$program"
cd "$dir"

for i in $(seq 20); do
  echo "{\"prompt\": \"Nora has $i apples\", \"max_tokens\": $((i % 7 + 1))}"
done > in.jsonl
echo "no JSON" >> in.jsonl
code=0
"$program" run --input in.jsonl --output single --quiet || code=$?
[ "$code" -eq 2 ]

refused() {  # WORDS ARGUMENTS
  if "$python" -m pagedinfer.ray "${@:2}" 2> words; then return 1; fi
  grep -- "$1" words
}
"$python" -m pagedinfer.ray --help | grep -q -- --shards
refused "none.jsonl: expected a file" --shards 3 none.jsonl
for flag in "--output other" "--output=other" "-o other" "-oother"; do
  # shellcheck disable=SC2086  # two words
  refused "--output: the outputs stand beside" --shards 3 in.jsonl $flag
done
refused "--errors: all tasks would write this one file" --shards 3 in.jsonl --errors other
refused "--stats: all tasks would write this one file" --shards 3 in.jsonl --stats=other
refused "found much" --shards 3 --memory much in.jsonl
"$python" -c "import ray.data" 2> /dev/null || { echo 'SKIPPED: there is no ray[data]'; exit 77; }

"$program" run --input in.jsonl --shard 1/3 --limit 9 --quiet  # left by an earlier attempt
"$python" -m pagedinfer.ray --shards 3 --memory 100M in.jsonl --quiet
cmp in.completions.jsonl single
refused "is there already" --shards 3 in.jsonl
rm in.completions.jsonl
refused "shard 0/3: .*--max-batch-size: found 0" --shards 3 in.jsonl --quiet --max-batch-size 0

"$python" - << 'PYTHON'
import pagedinfer, pagedinfer.ray, ray
rows = [{"id": f"r{i}", "prompt": f"Nora has {i} apples", "max_tokens": 3} for i in range(9)]
done = pagedinfer.ray.complete_dataset(ray.data.from_items(rows), batch_size=4, memory=10**8, temperature=0.9)
texts = {row["id"]: row["text"] for row in done.take_all()}
assert texts == {record["id"]: record["text"] for record in pagedinfer.run(rows, temperature=0.9)}, texts
try:
    pagedinfer.ray.complete_dataset(ray.data.from_items([{"prompt": "Nora"}]))
    raise SystemExit("sampling without ids was taken")
except ValueError as error:
    assert "random numbers follow it" in str(error)
PYTHON
