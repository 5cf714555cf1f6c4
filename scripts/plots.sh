#!/usr/bin/env bash
# Makes the plots that README.md, docs/ and results/ show anew: docs/plots/NAME.svg of each that a page names. The
# whole report, with all other plots and the tables, is build/report/report.html then. Results are those of the
# grids in scripts/grids, and traces are results/traces/*.gz. Needs matplotlib; PYTHON names the interpreter that
# has it.
set -euo pipefail
cd "$(dirname "$0")/.."
files=()
for grid in scripts/grids/*.grid; do
  file=results/$(basename "$grid" .grid).jsonl
  [ ! -f "$file" ] || files+=("$file")
done
for file in results/traces/*.gz; do [ ! -f "$file" ] || files+=("$file"); done
[ ${#files[@]} -gt 0 ] || { echo "results/: has nothing of a grid; run scripts/sweep.sh first" >&2; exit 1; }
"${PYTHON:-python3}" scripts/report.py "${files[@]}" --out build/report > build/report.md
mkdir -p docs/plots
missing=0
for name in $({ grep -ohE 'plots/[a-z0-9-]+\.svg' README.md docs/*.md results/*.md || true; } | sort -u); do
  if [ -f "build/report/${name#plots/}" ]; then
    cp "build/report/${name#plots/}" docs/plots/
  else
    echo "a page shows $name, which the results do not give" >&2
    missing=1
  fi
done
exit $missing
