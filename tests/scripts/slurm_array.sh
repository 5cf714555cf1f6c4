#!/usr/bin/env bash
# scripts/slurm_array.sh with a stand-in for Slurm gives what one run gives: slurm_array.sh PROGRAM
set -euo pipefail
program=$(realpath "$1") script=$(realpath "$(dirname "$0")/../../scripts/slurm_array.sh")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# Runs what it is given at once. A task that fails fails the jobs that depend on it.
cat > sbatch <<'SBATCH'
#!/usr/bin/env bash
echo 17
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --cpus-per-task=* | --mem=*) echo "$1" >> asked ;;
    --array=0-*) last=${1#--array=0-} ;;
    --dependency=afterok:17) [ ! -e failed ] || exit 0 ;;
    --wrap=*) exec bash -c "${1#--wrap=}" >&2 ;;
  esac
  shift
done
for ((i = 0; i <= last; ++i)); do
  SLURM_ARRAY_TASK_ID=$i bash "$@" >&2 || touch failed
done
SBATCH
chmod +x sbatch
export PATH="$dir:$PATH" PAGEDINFER="$program"

for i in $(seq 20); do
  echo "{\"prompt\": \"Nora has $i apples\", \"max_tokens\": $((i % 7 + 1))}"
done > in.jsonl
echo "no JSON" >> in.jsonl
code=0
"$program" run --input in.jsonl --output single --quiet || code=$?
[ "$code" -eq 2 ]

refused() {  # WORDS ARGUMENTS
  if "$script" "${@:2}" 2> words; then return 1; fi
  grep -- "$1" words
}
refused "in.jsonl: expected a number of shards" in.jsonl 3
refused "none.jsonl: expected a file" 3 none.jsonl
refused "--output: the outputs stand beside" 3 in.jsonl --output other
refused "--output: the outputs stand beside" 3 in.jsonl -o other
refused "--output: the outputs stand beside" 3 in.jsonl -oother
refused "--errors: all tasks would write this one file" 3 in.jsonl --errors other
refused "--stats: all tasks would write this one file" 3 in.jsonl --stats=other
refused "--trace: all tasks would write this one file" 3 in.jsonl --trace other
refused "--model: expected --cpus or --mem" --model story-llama 3 in.jsonl
refused "--cpus: found many" --cpus many 3 in.jsonl
refused "--mem: expected a value" --mem

"$script" 3 in.jsonl --quiet --max-batch-size 0 2> words
grep -q -- "--max-batch-size: found 0" words
[ ! -e in.completions.jsonl ]
rm -f failed asked
"$script" --cpus 2 --mem 200M 3 in.jsonl --quiet | grep "job 17 runs 3 shards"
grep -qx -- --mem=200M asked
grep -qx -- --cpus-per-task=2 asked
cmp in.completions.jsonl single
refused "is there already" 3 in.jsonl --quiet
rm in.completions.jsonl
"$script" --cpus 2 3 in.jsonl --quiet --threads 1
cmp in.completions.jsonl single
