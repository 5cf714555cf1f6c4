#!/usr/bin/env bash
# The regression comparison: the demo prompts under many configurations, and a tiny model of every
# family and a tiny checkpoint of every kind of quantization under some, each of which must write the
# same bytes as one request at a time does, from the same logits. scripts/regression.sh [PROGRAM [LINES]]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:-$root/build/pagedinfer}")
cd "$root"
lines=${2:-120}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every kind of prompt, a few of them sampled at random, with lines that fail among them.
python3 - "$lines" datasets/prompts.jsonl "$work/prompts.jsonl" <<'PY'
import json, sys
count, source, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
records = [json.loads(line) for line in open(source, encoding="utf-8")]
step = max(1, len(records) // count)
with open(target, "w", encoding="utf-8") as out:
    for i, record in enumerate(records[::step][:count]):
        record["max_tokens"] = min(record.get("max_tokens", 64), 64)
        if i % 3 == 1:
            record.update(temperature=0.8, top_k=40, top_p=0.95, seed=i)
        if i % 4 == 1:
            record["n"] = 2 + i % 3
            record["best_of"] = 2 + i % 3 + i % 2
        if i % 5 < 2:
            record["logprobs"] = i % 5
        if i % 7 == 2:
            record.update(repetition_penalty=1.1, frequency_penalty=0.2, stop=[". "])
        out.write(json.dumps(record) + "\n")
        if i % 10 == 0:
            out.write('{"prompt": "unfinished\n\n{"id": 7, "prompt": ""}\n')
PY

prompts=$work/prompts.jsonl model=()
run() {  # run NAME FLAGS...
  local name=$1 code=0
  shift
  "$program" run --quiet --input "$prompts" --output "$work/$name.jsonl" \
    ${model[@]+"${model[@]}"} "$@" || code=$?
  [ "$code" -eq 2 ] || { echo "$name: exit code $code, expected 2"; exit 1; }
}

count=0
compare() {  # compare NAME FLAGS...
  run "$@"
  if ! cmp "$work/$baseline.jsonl" "$work/$1.jsonl"; then
    echo "$1 differs from $baseline: ${*:2}"
    diff "$work/$baseline.jsonl" "$work/$1.jsonl" | head -4 || true
    exit 1
  fi
  count=$((count + 1))
  printf '  same bytes: %-18s %s\n' "$1" "${*:2}"
}

verify() {  # verify NAME A B: the tokens, and all logits they are drawn from, are equal
  local report=$work/$1.verify
  if ! "$program" verify --quiet --input "$prompts" --output "$report" --logits \
    --stats "$work/$1.stats" \
    ${model[@]+"${model[@]}"} --a "$2" --b "$3" || ! grep -q '"rows_differ":0}' "$report"; then
    echo "$1: '$2' and '$3' differ"
    head -4 "$report" || true
    exit 1
  fi
  count=$((count + 1))
  printf '  same logits: %-17s %s | %s\n' "$1" "$2" "$3"
}

tight() {  # tight COMMAND NAME ...: one of the two above, in which sequences must lose their cache
  "$@"
  local preemptions
  preemptions=$(sed -n 's/.*"preemptions": *\([0-9]*\).*/\1/p' "$work/$2.summary.json")
  if [ "${preemptions:-0}" -eq 0 ]; then
    echo "$2: preempted no sequence of $(wc -l < "$prompts") lines, so it does not test preemption"
    exit 1
  fi
  printf '  preemptions: %s\n' "$preemptions"
}

verify paged-cache "--kv contiguous" "--kv paged"
tight verify small-paged-cache "--kv contiguous --num-blocks 2048" \
  "--kv paged --num-blocks 160 --block-size 4 --prefill-chunk-size 33 --admission-reserve 0"
baseline=alone
run alone --max-batch-size 1 --kv contiguous --chunked-prefill off --threads 1
lines_out=$(wc -l < "$work/alone.jsonl")
[ "$lines_out" -ge "$lines" ] || { echo "only $lines_out records of $lines lines"; exit 1; }

compare paged
compare contiguous --kv contiguous --num-blocks 4096
compare static --batching static
compare static-small --batching static --max-batch-size 5
compare whole --chunked-prefill off
for size in 1 7 64; do compare "chunk-$size" --prefill-chunk-size "$size" --max-prefill-chunks 3; done
for size in 1 3 16 128; do compare "block-$size" --block-size "$size"; done
for size in 2 17 256; do compare "batch-$size" --max-batch-size "$size"; done
for number in 1 2 4; do compare "threads-$number" --threads "$number"; done
tight compare tight --num-blocks 48 --block-size 16 --admission-reserve 0
tight compare tighter --num-blocks 160 --block-size 4 --max-batch-size 32 --prefill-chunk-size 33
compare budget --max-step-tokens 40 --max-batch-size 24
for isa in portable avx2 avx512 amx; do
  refusal=$("$program" run --quiet --input /dev/null --output - --cpu-isa "$isa" 2>&1) || true
  case $refusal in
    *"this processor has"*) echo "  SKIPPED: isa-$isa (not on this processor)" ;;
    *) compare "isa-$isa" --cpu-isa "$isa" ;;
  esac
done

baseline=alone-float32
run alone-float32 --dtype float32 --max-batch-size 1 --kv contiguous --chunked-prefill off
compare paged-float32 --dtype float32
compare small-float32 --dtype float32 --block-size 5 --prefill-chunk-size 9 --threads 3

for directory in datasets/story-*/; do
  name=$(basename "$directory")
  [ "$name" != story-llama ] || continue  # which is the one above
  model=(--model "$name") baseline=$name
  run "$name" --max-batch-size 1 --kv contiguous --chunked-prefill off --threads 1
  compare "$name-small" --block-size 3 --prefill-chunk-size 5
  tight compare "$name-tight" --num-blocks 160 --block-size 4 --admission-reserve 0
done

# Prompts of token ids, one of them not in the vocabulary, for models with made-up weights (--weights
# dummy), and for quantized ones.
python3 - tests/data "$work" <<'PY'
import json, pathlib, random, sys
source, work = map(pathlib.Path, sys.argv[1:])
configs = {path.stem: json.loads(path.read_text())["config"]
           for path in sorted(source.glob("families/*.json"))}
for name, config in configs.items():
    (work / name).mkdir()
    (work / name / "config.json").write_text(json.dumps(config))
configs |= {path.parent.name: json.loads(path.read_text())
            for path in sorted(source.glob("quantized/*/config.json"))}
for name, config in configs.items():
    vocab = config.get("text_config", config)["vocab_size"]
    chance = random.Random(name)
    with open(work / f"{name}.prompts", "w") as out:
        for i in range(24):
            grows = i >= 12  # so that those that run outgrow the small cache
            size = 7 if grows else chance.choice((1, 7, 24, 25, 60, 300))
            ids = [chance.randrange(vocab) for _ in range(size)]
            more = {"temperature": 0.9, "seed": i} if i % 2 else {}
            more |= {"max_tokens": 50, "ignore_eos": True} if grows else {"max_tokens": chance.randrange(1, 50)}
            out.write(json.dumps({"prompt_token_ids": ids} | more) + "\n")
        out.write(json.dumps({"prompt_token_ids": [vocab]}) + "\n")
PY
compare_model() {  # compare_model NAME: the one of `model`
  local name=$1 alone="--max-batch-size 1 --kv contiguous --chunked-prefill off --threads 1"
  prompts=$work/$name.prompts
  baseline=$name
  run "$name" $alone
  compare "$name-paged"
  verify "$name-small" "$alone" "--block-size 3 --prefill-chunk-size 5"
  tight verify "$name-tight" "$alone" "--num-blocks 90 --block-size 4 --admission-reserve 0"
  verify "$name-isa" "$alone" "--cpu-isa portable --prefill-chunk-size 23"
}
for config in tests/data/families/*.json; do
  name=$(basename "$config" .json)
  model=(--model "$work/$name" --weights dummy)
  compare_model "$name"
done
for directory in tests/data/quantized/*/; do
  model=(--model "$directory")
  compare_model "$(basename "$directory")"
done
echo "$count configurations wrote the same bytes as one request at a time"
