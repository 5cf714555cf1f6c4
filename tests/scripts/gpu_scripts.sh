#!/usr/bin/env bash
# The measuring scripts for a GPU machine, tried with tiny models on the CPU: gpu_scripts.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PAGEDINFER_CHECK_SMALL=1
python3 tools/gpu/engine.py "$1" steps gaps prefill offline deterministic quantized start |
  grep '^{' >"$work/results.jsonl"
cat >>"$work/results.jsonl" <<'LINES'
{"kind":"gpu","gpu":"a GPU"}
{"kind":"copy","gb_s":4300}
{"kind":"peak","tflop_s":790}
{"kind":"kernel","name":"attention_decode","shape":"llama-3.2-3b seqs=64 context=2048 queries=1","us":130.2,"gb_s":3900,"of_copy":0.907,"tflop_s":12.1,"of_peak":0.015}
{"kind":"kernel","name":"attention_decode_contiguous","shape":"llama-3.2-3b seqs=64 context=2048 queries=1","us":128.2,"gb_s":3950,"of_copy":0.917,"tflop_s":12.1,"of_peak":0.015}
{"kind":"peer","name":"attention_decode","shape":"llama-3.2-3b seqs=64 context=2048 queries=1","us":200}
{"kind":"kernel","name":"norm","shape":"too short to time","us":0.00,"gb_s":inf,"of_copy":-nan,"tflop_s":0.0,"of_peak":0.000}
{"kind":"part","part":"kernels","ok":false,"seconds":0,"not_run":"no GPU"}
LINES
python3 tools/gpu/table.py "$work/results.jsonl" | tee "$work/table"
for row in "decode step.*batch 1 .*<= 1.887" "gap per decode step.*<= 0.05" "attention +decode .*of its bound" \
  "prefill .*>= 75000" "offline .*>= 71300" \
  "kept with --deterministic.*>= 0.95" "weights in int8, offline" "weights in int8 .*batch 1 " "one token.*<= 4" "attention_decode .*>= 0.9 .*yes" \
  "cost of paging.*<= 0.03.*yes" "NOT RUN: no GPU" "not JSON: .*too short to time" "attention_decode .* 200$"; do
  grep -qE "$row" "$work/table" || { echo "no row: $row" >&2; exit 1; }
done
