#!/usr/bin/env bash
# scripts/report.py makes of a sample what its lines tell: report.sh tables|plots
# Exit code 77: there is no matplotlib. PYTHON names another interpreter.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
report=$here/../../scripts/report.py sample=$here/../data/report python=${PYTHON:-python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$1" >&2; exit 1; }
has() { grep -qF -- "$2" "$1" || fail "$1 has no '$2': $(cat "$1")"; }
ends_with() { local wanted=$1 code=0; shift; "$@" || code=$?; [ $code -eq "$wanted" ] || fail "exit code $code, expected $wanted: $*"; }

tables() {
  "$python" "$here/report_tables.py" > "$dir/cases" || fail 'a table is not as it should be'
  # Stands before an installed matplotlib.
  mkdir "$dir/none"
  echo 'raise ModuleNotFoundError("no module", name="matplotlib")' > "$dir/none/matplotlib.py"
  PYTHONPATH=$dir/none ends_with 0 "$python" "$report" "$sample"/*.jsonl --out "$dir/out" > "$dir/text" 2> "$dir/notes"
  has "$dir/notes" 'matplotlib is not installed; apt-get install python3-matplotlib'
  cmp "$dir/text" "$dir/out/tables.md"
  has "$dir/out/report.html" '<th><span>--max-batch-size 8</span> <span>--kv paged</span></th>'
  # Medians of two runs, a ratio with its interval, a prediction, two runs told apart by settings.
  "$python" - "$dir/text" "$sample/bench_results.jsonl" << 'END'
import json, statistics, sys
text = open(sys.argv[1], encoding="utf-8").read()
def cells(title, first):
    rows = text.split(f"### {title}\n")[1].split("###")[0].splitlines()
    header = [c.strip() for c in rows[1].split("|")]
    row = next(r for r in rows if r.startswith(f"| {first} "))
    return dict(zip(header, (c.strip() for c in row.split("|"))))
lines = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
speeds = [line["summary"]["output_throughput"] for line in lines if line.get("run") == "batch"
          and "--max-batch-size 8 --kv paged" in line["command"]]
row = cells("batch, story-llama", "--max-batch-size 8 --kv paged")
assert row["runs"] == str(len(speeds)) == "2", row
assert row["output throughput [tokens/s]"] == f"{statistics.median(speeds):,.0f}", row
row = cells("Comparisons, bench_results", "rate-0.7, story-llama: --batching continuous over --batching static")
assert row["P99 TTFT"] == "0.0900 (0.0810 to 0.0990)" and row["output throughput"] == "1.010 (1.000 to 1.020)", row
def predicted():  # seconds of the prompts, and of decodes at 7 and 30 sequences, between the measured batches
    def of(run, figure):
        found = {}
        for line in lines:
            if line.get("run") == run:
                found.setdefault(line["summary"]["running_mean"], []).append(figure(line["summary"]))
        return {batch: statistics.median(values) for batch, values in found.items()}
    curve = of("decode", lambda s: s["duration"] / s["decode_tokens"])
    prompt = next(iter(of("prefill", lambda s: s["duration"] / s["prefill_tokens"]).values()))
    at_7 = curve[1] + (curve[8] - curve[1]) * 6 / 7
    at_30 = curve[8] + (curve[32] - curve[8]) * 22 / 24
    summary = next(line for line in lines if "pairs" in line)["configurations"][0]["summary"]
    return ((prompt * summary["prefill_tokens"] + at_7 * summary["decode_tokens"])
            / (prompt * summary["prefill_tokens"] + at_30 * summary["decode_tokens"]))
row = cells("What the batch curve allows, bench_results", "equal-memory")
assert row["predicted ratio"] == f"{predicted():.2f}", (row, predicted())
cells("Runs", "chunks of 128, 1 a step"), cells("Runs", "whole prompts")
cells("Operations, whole prompts", "attention")
END

  # A bad line is named, with what was found and what was expected; the others are reported.
  { head -1 "$sample/run_stats.jsonl"; echo '{}'; echo 'x'; echo '[1]'; echo '{"a":1}'
    echo '{"run_id":"r","begin_s":"0"}'; echo '{"run_id":"r","error":"too_long"}'
    grep -m1 '"pairs"' "$sample/bench_results.jsonl" | sed 's/"of":1/"of":2/'
  } > "$dir/bad.jsonl"
  ends_with 2 "$python" "$report" "$dir/bad.jsonl" "$dir/absent.jsonl" > "$dir/text" 2> "$dir/notes"
  has "$dir/notes" "bad.jsonl:2: found the keys none, expected a line of bench --results"
  has "$dir/notes" "bad.jsonl:3: found 'x', expected JSON"
  has "$dir/notes" "bad.jsonl:4: found a list, expected an object"
  has "$dir/notes" "bad.jsonl:5: found the keys a, expected a line of bench --results"
  has "$dir/notes" "bad.jsonl:6: found \"0\" as begin_s, expected a number"
  has "$dir/notes" "bad.jsonl:8: found no configuration of ratios[0], expected 0 to 1"
  has "$dir/notes" "absent.jsonl: "
  [ "$(wc -l < "$dir/notes")" -eq 7 ] || fail "$(cat "$dir/notes")"
  # One pair has no interval; the configurations of a comparison have figures of their own too.
  grep '"run":"rate-0.7"' "$sample/bench_results.jsonl" | sed 's/"mean_95":\[[^,]*,\([^,]*\),[^]]*\]/"mean_95":[null,\1,null]/g' > "$dir/one_pair.jsonl"
  ends_with 0 "$python" "$report" "$dir/one_pair.jsonl" > "$dir/one_pair"
  grep -qE 'over --batching static \| +1.010 \| +0.0900 \|' "$dir/one_pair" || fail "$(cat "$dir/one_pair")"
  has "$dir/one_pair" '| --batching continuous |'
  has "$dir/text" 'has no summary, so it did not end; its figures are of 1 requests'
  echo '[1]' > "$dir/worse.jsonl"
  ends_with 1 "$python" "$report" "$dir/worse.jsonl" 2> "$dir/notes"
  has "$dir/notes" 'nothing to report'

  # What cannot be written is said in one line.
  touch "$dir/file"
  for out in "$dir/file" /dev/null/folder; do
    ends_with 1 "$python" "$report" "$dir/one_pair.jsonl" --out "$out" > "$dir/text" 2> "$dir/notes"
    [ "$(wc -l < "$dir/notes")" -eq 1 ] || fail "$(cat "$dir/notes")"
    has "$dir/notes" "$out: "
    cmp "$dir/text" "$dir/one_pair"
  done
  [ ! -w /dev/full ] || ends_with 1 "$python" "$report" "$dir/one_pair.jsonl" > /dev/full 2> "$dir/notes"
  [ ! -w /dev/full ] || [ "$(cat "$dir/notes")" = 'standard output: No space left on device' ] || fail "$(cat "$dir/notes")"
}

draw() {
  "$python" -c 'import matplotlib' 2> /dev/null || { echo 'SKIPPED: there is no matplotlib'; exit 77; }
  "$python" "$report" "$sample"/*.jsonl --out "$1" > /dev/null
}

plots() {
  draw "$dir/a"
  "$python" "$here/report_plots.py" > "$dir/cases" || fail 'a plot is not as it should be'
  draw "$dir/b"
  diff -r "$dir/a" "$dir/b"  # the same bytes
  for name in bench-results-batch-story-llama-by-max-batch-size bench-results-rate-story-llama-by-rate \
    bench-results-chunks-story-llama-by-prefill-chunk-size bench-results-ratio-of-p99-ttft itl-over-time \
    requests-run-stats requests-run-stats-2 cache-over-time-run-stats cache-over-time-run-stats-2 share-of-bound-run-stats share-of-bound-run-stats-2; do
    [ -s "$dir/a/$name.png" ] && [ -s "$dir/a/$name.svg" ] || fail "there is no $name"
  done
  [ "$(grep -c '<svg' "$dir/a/report.html")" -eq "$(find "$dir/a" -name '*.svg' | wc -l)" ]
  ! grep -qiE '<script|src=|url\(http|@import' "$dir/a/report.html" || fail 'the page is not self-contained'
}

"$1"
