#!/usr/bin/env bash
# Runs a grid of `pagedinfer bench` commands and appends what they measure to results/.
#
#   scripts/sweep.sh GRID [--program PROGRAM] [--results FILE] [--repeats N] [--only NAME] [--dry-run]
#
# GRID is a file, or the name of one in scripts/grids. Results go to results/GRID.jsonl of this repository unless
# FILE is given; each line also gets "grid" and "run", the grid's name and that of the line below. PROGRAM is
# build/pagedinfer. --only runs one line of the grid; --dry-run prints the commands and runs nothing.
#
# A grid is a text file:
#
#   # A comment. Words in quotes are one word, as in a shell; nothing is expanded.
#   repeats: 3
#   common: --model story-llama                        these flags are put before those of each line
#   decode: --workload random --requests 64 | --max-batch-size 1 8 64 | --kv paged contiguous
#   cost: --workload random --pairs 7 --compare "--kv contiguous" "--kv paged"
#
# A line is a name, flags of `pagedinfer bench`, and axes behind a |. An axis is a flag and its values, or
# words that are each a set of flags: | "--chunked-prefill off" "--prefill-chunk-size 128". All combinations
# are run. Then they are run again, `repeats` times in all, so that what disturbs the machine for a while
# does not meet one of them only. A line with --compare is run once: it takes turns by itself.
#
# Exit code 0; 1 if a command failed (the others are run), 64 for wrong arguments, 130 after a signal.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$root/build/pagedinfer results= repeats= only= dry_run=no grid=
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | head -6 >&2; exit 64; }
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=yes; shift; continue ;;
    --program | --results | --repeats | --only) [ $# -ge 2 ] || usage ;;&
    --program) program=$(realpath "$2"); shift 2 ;;
    --results) results=$(realpath -m --relative-base="$root" "$2"); shift 2 ;;
    --repeats) [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || { echo "--repeats: found '$2', expected a number from 1 on" >&2; exit 64; }
               repeats=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    -*) usage ;;
    *) [ -z "$grid" ] || usage; grid=$1; shift ;;
  esac
done
[ -n "$grid" ] || usage
[ -f "$grid" ] || grid=$root/scripts/grids/${grid%.grid}.grid
[ -f "$grid" ] || { echo "$grid: there is no such grid" >&2; exit 1; }
name=$(basename "$grid" .grid)
grid=$(realpath "$grid")
cd "$root"
results=${results:-results/$name.jsonl}

fail() { echo "$grid:$number: $1" >&2; exit 1; }

# The words of a text, one a line; quotes hold words together.
words() { xargs -r -n 1 printf '%s\n' <<< "$1"; }

trim() { local text=${1#"${1%%[![:space:]]*}"}; printf '%s' "${text%"${text##*[![:space:]]}"}"; }

# Adds to `choices` what an axis puts behind a command, each as one word a line.
read_axis() {
  local axis value
  mapfile -t axis < <(words "$1")
  choices=()
  if [[ ${axis[0]} == --* && ${axis[0]} != *' '* ]]; then
    [ ${#axis[@]} -gt 1 ] || fail "found ${axis[0]}, expected its values behind it"
    for value in "${axis[@]:1}"; do choices+=("${axis[0]}"$'\n'"$value"); done
  else
    for value in "${axis[@]}"; do choices+=("$(words "$value")"); done
  fi
}

names=() commands=()  # a command is its words, one a line
common='' of_grid=3 number=0
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  line=$(trim "$line")
  [[ -z $line || $line == '#'* ]] && continue
  [[ $line =~ ^([A-Za-z0-9_.-]+):[[:space:]]*(.*)$ ]] || fail "found '$line', expected NAME: FLAGS"
  key=${BASH_REMATCH[1]} rest=${BASH_REMATCH[2]}
  xargs true <<< "$rest" 2> /dev/null || fail "found '$rest', expected a quote behind each quote"
  case $key in
    repeats) [[ $rest =~ ^[1-9][0-9]{0,5}$ ]] || fail "found '$rest' repeats, expected a number"
             of_grid=$rest; continue ;;
    common) common=$rest; continue ;;
  esac
  [ -z "$only" ] || [ "$only" = "$key" ] || continue
  IFS='|' read -ra parts <<< "$rest"
  product=("$(words "$common ${parts[0]:-}")")
  for axis in "${parts[@]:1}"; do
    read_axis "$axis"
    longer=()
    for command in "${product[@]}"; do
      for choice in "${choices[@]}"; do longer+=("$command"${choice:+$'\n'"$choice"}); done
    done
    product=("${longer[@]}")
  done
  for command in "${product[@]}"; do names+=("$key"); commands+=("$command"); done
done < "$grid"
[ ${#commands[@]} -gt 0 ] || { echo "$grid: has no line${only:+ named $only}" >&2; exit 1; }
repeats=${repeats:-$of_grid}

# Writes grid and name into the lines that a command has appended.
tag() { sed -i "$(($1 + 1)),\$s/^{/{\"grid\":\"$name\",\"run\":\"$2\",/" "$results"; }
num_lines() { if [ -f "$results" ]; then wc -l < "$results"; else echo 0; fi; }

if [ "$dry_run" = no ]; then
  [ -x "$program" ] || { echo "$program: there is no such program; build it first" >&2; exit 1; }
  mkdir -p "$(dirname "$results")"
  read -r load _ < /proc/loadavg
  [ "${load%.*}" -lt 1 ] || echo "note: the machine is not idle (load average $load)" >&2
fi
failed=0
for ((round = 1; round <= repeats; ++round)); do
  for i in "${!commands[@]}"; do
    mapfile -t flags <<< "${commands[i]}"
    is_comparison=no
    for flag in "${flags[@]}"; do [ "$flag" != --compare ] || is_comparison=yes; done
    [ $is_comparison = no ] || [ "$round" -eq 1 ] || continue
    # In front, so that --compare may end the command.
    command=("$program" bench --quiet --results "$results" "${flags[@]}")
    if [ "$dry_run" = yes ]; then printf '%s:' "${names[i]}"; printf ' %q' "${flags[@]}"; echo; continue; fi
    echo "[round $round of $repeats, $((i + 1)) of ${#commands[@]}] ${names[i]}: ${flags[*]}" >&2
    before=$(num_lines) code=0
    "${command[@]}" || code=$?
    [ "$(num_lines)" -le "$before" ] || tag "$before" "${names[i]}"
    [ $code -ne 130 ] || exit 130
    [ $code -eq 0 ] || { echo "exit code $code: ${names[i]}: ${flags[*]}" >&2; failed=1; }
  done
done
[ "$dry_run" = yes ] || echo "$results: scripts/report.py makes tables and plots of it" >&2
exit $failed
