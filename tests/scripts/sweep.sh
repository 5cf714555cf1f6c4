#!/usr/bin/env bash
# scripts/sweep.sh runs the combinations of a grid in turn, and report.py reads what it kept: sweep.sh PROGRAM
set -euo pipefail
program=$(realpath "$1") scripts=$(realpath "$(dirname "$0")/../../scripts")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$1" >&2; exit 1; }

"$scripts/sweep.sh" tiny --program "$program" --results "$dir/tiny.jsonl" 2> "$dir/notes"
# Two rounds of nine combinations, one behind the other; the comparison is run in the first one only.
python3 - "$dir/tiny.jsonl" << 'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
comparison = lines.pop(9)
assert (comparison["run"], comparison["pairs"]) == ("compare", 2) and comparison["ratios"]
assert [line["run"] for line in lines] == 2 * (["batch"] * 2 + ["chunks"] * 3 + ["heads"] * 2 + ["rate"] * 2), lines
assert {line["grid"] for line in lines} == {"tiny"}
first, second = lines[:9], lines[9:]
assert [l["command"] for l in first] == [l["command"] for l in second]
configs = [line["config"] for line in first]
assert [c["max_batch_size"] for c in configs[:2]] == [1, 4]
assert [(c["chunked_prefill"], c["max_prefill_chunks"]) for c in configs[2:5]] == [(False, None), (True, 1), (True, None)]
assert [c["prefix_cache"] for c in configs[5:7]] == [True, False]
assert [line["workload"]["rate"] for line in first[7:]] == [200, 400]
assert all(l["summary"]["completed"] == 8 and l["commit"] and l["machine"] for l in lines)
END
python3 "$scripts/report.py" "$dir/tiny.jsonl" > "$dir/tables"
grep -q '^| --max-batch-size 4 *| *2 |' "$dir/tables" || fail "$(cat "$dir/tables")"
grep -q '^| compare, story-llama: --kv paged over --kv contiguous *|' "$dir/tables" || fail "$(cat "$dir/tables")"

# Quotes hold words together, also behind --compare, which takes turns by itself.
cat > "$dir/some.grid" << 'END'
# a comment
common: --seed 1
repeats: 2
a: --workload random | --x "1 2" 3 | --y 4
b: --workload random --compare "--kv paged" '--kv contiguous'
END
"$scripts/sweep.sh" "$dir/some.grid" --dry-run > "$dir/printed"
cat > "$dir/expected" << 'END'
a: --seed 1 --workload random --x 1\ 2 --y 4
a: --seed 1 --workload random --x 3 --y 4
b: --seed 1 --workload random --compare --kv\ paged --kv\ contiguous
a: --seed 1 --workload random --x 1\ 2 --y 4
a: --seed 1 --workload random --x 3 --y 4
END
diff "$dir/expected" "$dir/printed"
"$scripts/sweep.sh" "$dir/some.grid" --dry-run --only b --repeats 5 > "$dir/printed"
[ "$(wc -l < "$dir/printed")" -eq 1 ]
for grid in "$scripts"/grids/*.grid; do "$scripts/sweep.sh" "$grid" --dry-run > "$dir/printed" || fail "$grid"; done

# A line that cannot be read is named; after a command that fails the others are run.
refused() {
  printf '%s\n' '# a comment' "$1" > "$dir/bad.grid"
  ! "$scripts/sweep.sh" "$dir/bad.grid" --dry-run > "$dir/printed" 2> "$dir/notes" || fail "took: $1"
  grep -qF "bad.grid:2: found $2" "$dir/notes" || fail "$(cat "$dir/notes")"
}
refused 'no name' "'no name', expected NAME: FLAGS"
refused 'a: --x "1' "'--x \"1', expected a quote behind each quote"
refused 'a: --x 1 | --y' '--y, expected its values behind it'
refused 'repeats: 0' "'0' repeats, expected a number"
printf '%s\n' 'repeats: 1' 'a: --requests 2 --output-tokens 2 | --workload no random' > "$dir/fails.grid"
code=0
"$scripts/sweep.sh" "$dir/fails.grid" --program "$program" --results "$dir/fails.jsonl" 2> "$dir/notes" || code=$?
[ $code -eq 1 ] && [ "$(wc -l < "$dir/fails.jsonl")" -eq 1 ] || fail "exit code $code: $(cat "$dir/notes")"
grep -q '^exit code .*: a: .*--workload no$' "$dir/notes" || fail "$(cat "$dir/notes")"

# A path is relative to the caller's folder; a count of repeats is checked; a signal ends the sweep.
cat > "$dir/fake" << 'END'
#!/usr/bin/env bash
# Keeps a line, as `bench --quiet --results FILE` does, and ends as "$dir/code" says.
echo '{"command":"fake"}' >> "$4"
exit "$(cat "$(dirname "$0")/code")"
END
chmod +x "$dir/fake"
printf '%s\n' 'repeats: 2' 'a: --x 1' 'b: --x 2' > "$dir/two.grid"
mkdir "$dir/caller"
echo 0 > "$dir/code"
(cd "$dir/caller" && "$scripts/sweep.sh" ../two.grid --program ../fake --results kept/here.jsonl 2> ../notes)
[ "$(wc -l < "$dir/caller/kept/here.jsonl")" -eq 4 ] || fail "$(cat "$dir/notes")"
for repeats in 0 -1 abc '' 1.5 99999999999999999999; do
  code=0
  "$scripts/sweep.sh" "$dir/two.grid" --dry-run --repeats "$repeats" > "$dir/printed" 2> "$dir/notes" || code=$?
  [ $code -eq 64 ] && [ ! -s "$dir/printed" ] || fail "took --repeats '$repeats': $(cat "$dir/printed")"
  grep -qF -- "--repeats: found '$repeats', expected a number from 1 on" "$dir/notes" || fail "$(cat "$dir/notes")"
done
echo 130 > "$dir/code"
code=0
"$scripts/sweep.sh" "$dir/two.grid" --program "$dir/fake" --results "$dir/ended.jsonl" 2> "$dir/notes" || code=$?
[ $code -eq 130 ] && [ "$(wc -l < "$dir/ended.jsonl")" -eq 1 ] || fail "exit code $code: $(cat "$dir/notes")"
