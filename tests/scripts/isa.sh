#!/usr/bin/env bash
# The bundled models give the same bytes on an instruction set as without one: isa.sh PROGRAM SET.
# Exits with 77 where the processor does not have it.
set -euo pipefail
program=$(realpath "$1") isa=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

for i in $(seq 24); do
  echo "{\"prompt\": \"Nora has $i apples and Tom has $((i * i)). \", \"max_tokens\": $((i + 3)), \"logprobs\": 2}"
done > in.jsonl
complete() {  # NAME SET FLAGS
  "$program" run --quiet --overwrite --input in.jsonl --output "$1" --stats stats.jsonl --cpu-isa "$2" "${@:3}"
}

if ! complete "$isa.jsonl" "$isa" 2> message; then
  grep -q -- "--cpu-isa $isa: this processor has" message || { cat message >&2; exit 1; }
  cat message
  exit 77
fi
for model in story-llama story-qwen3 story-gemma3; do
  for flags in "--pack-weights on" "--quantize int8" "--pack-weights off" "--kv-dtype int8"; do
    # shellcheck disable=SC2086
    complete "$isa.jsonl" "$isa" --model $model $flags
    # shellcheck disable=SC2086
    complete portable.jsonl portable --model $model $flags
    cmp portable.jsonl "$isa.jsonl"
  done
done
