#!/usr/bin/env bash
# Directories as versions of transformers write them start, and answer text and token ids.
set -euo pipefail
program=$1
repository=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
python3 "$repository/tools/goldens/make_model_dirs.py" "$dir/models"
cat > "$dir/in.jsonl" <<'END'
{"prompt": "Once upon a time there was", "max_tokens": 4, "ignore_eos": true}
{"prompt_token_ids": [7, 8, 9], "max_tokens": 4, "ignore_eos": true}
END

answers() {
  if ! "$program" run --input "$dir/in.jsonl" --output - --stats "$dir/stats" --model "$1" \
      --quiet > "$dir/out" 2> "$dir/err"; then
    echo "$1 does not start:"
    cat "$dir/err" "$dir/out"
    exit 1
  fi
  if [ "$(grep -c '"finish_reason":"length"' "$dir/out")" != 2 ]; then
    echo "$1 does not answer:"
    cat "$dir/out"
    exit 1
  fi
}

count=0
for model in "$dir"/models/*; do
  answers "$model"
  count=$((count + 1))
done
echo "$count directories"
[ "$count" -ge 20 ]

# Numbers of any size in unused fields, in every file of a directory.
for name in llama2-slow-4.33 gemma3-fast-4.51; do
  model=$dir/models/$name
  answers "$model"
  cp "$dir/out" "$dir/before"
  for file in config generation_config tokenizer_config special_tokens_map preprocessor_config; do
    [ ! -e "$model/$file.json" ] ||
      sed -i '1s/{/{"unused": [1e999, NaN, -Infinity, 1000000000000000019884624838656],/' \
        "$model/$file.json"
  done
  grep -q unused "$model/config.json"
  answers "$model"
  cmp "$dir/before" "$dir/out"
done
