#!/usr/bin/env bash
# Completes a file on a Slurm cluster: an array of tasks with a shard each, then a job that merges.
#
#   scripts/slurm_array.sh [--cpus N] [--mem SIZE] SHARDS INPUT [flags of pagedinfer run]
#   scripts/slurm_array.sh --cpus 8 --mem 20G 16 prompts.jsonl --model DIR --max-tokens 512
#
# Each task gets N cores, for N threads, and SIZE of memory; else what the site gives.
# Every node must see the input, the model and the outputs, which stand beside the input. sbatch
# takes its own settings from variables such as SBATCH_PARTITION and SBATCH_TIMELIMIT. The same
# command again goes on with what was left undone; a shard that has ended ends at once.
# PAGEDINFER names another program than build/pagedinfer.
set -euo pipefail
refuse() { echo "$1" >&2; exit 1; }
arguments=("$@") resources=() threads=()
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --cpus)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || refuse "--cpus: found ${2:-nothing}, expected a number of cores"
      resources+=("--cpus-per-task=$2") threads=(--threads "$2") ;;
    --mem) resources+=("--mem=${2:-}") ;;
    *) refuse "$1: expected --cpus or --mem; flags of pagedinfer run follow the input" ;;
  esac
  [ $# -ge 2 ] || refuse "$1: expected a value"
  shift 2
done
shards=${1:?SHARDS: how many tasks share the file} input=${2:?INPUT: a file of prompts}
flags=("${@:3}")
[[ " ${flags[*]} " == *" --threads"* ]] || flags+=("${threads[@]}")
stem=${input%.gz} stem=${stem%.zst} stem=${stem%.jsonl} stem=${stem%.csv} stem=${stem%.tsv}

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then  # a task
  code=0
  "$PAGEDINFER" run --input "$input" --shard "$SLURM_ARRAY_TASK_ID/$shards" --resume \
    "${flags[@]}" || code=$?
  [ "$code" -ne 2 ] || code=0  # error records are records
  exit "$code"
fi

[[ "$shards" =~ ^[1-9][0-9]*$ ]] || refuse "$shards: expected a number of shards, then the input"
[ -f "$input" ] || refuse "$input: expected a file"
for flag in "${flags[@]}"; do
  case "$flag" in
    --output | --output=* | -o*) refuse "--output: the outputs stand beside the input" ;;
    --errors | --errors=* | --stats | --stats=* | --trace | --trace=*)
      refuse "${flag%%=*}: all tasks would write this one file; leave it out" ;;
  esac
done
PAGEDINFER=$(realpath "${PAGEDINFER:-$(dirname "$0")/../build/pagedinfer}")
export PAGEDINFER
[ ! -e "$stem.completions.jsonl" ] || refuse "$stem.completions.jsonl: is there already"
merge=("$PAGEDINFER" merge --output "$stem.completions.jsonl")
for ((shard = 0; shard < shards; ++shard)); do
  merge+=("$stem.$shard-of-$shards.completions.jsonl")
done
tasks=$(sbatch --parsable --requeue --array="0-$((shards - 1))" "${resources[@]}" "$0" "${arguments[@]}")
sbatch --parsable --kill-on-invalid-dep=yes --dependency="afterok:${tasks%%;*}" --wrap="$(printf '%q ' "${merge[@]}")" >/dev/null
echo "job ${tasks%%;*} runs $shards shards; then $stem.completions.jsonl is made"
