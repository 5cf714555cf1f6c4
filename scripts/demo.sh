#!/usr/bin/env bash
# From nothing to completions: installs packages, builds, and runs the bundled prompts through
# the bundled model. Completions and statistics go to demo/ in the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh
cmake -G Ninja -B build -DPAGEDINFER_TESTS=OFF -DPAGEDINFER_GRAMMAR=ON -DPAGEDINFER_UNITY=ON >/dev/null
cmake --build build
mkdir -p build/demo
build/pagedinfer run --overwrite --input datasets/prompts.jsonl \
  --output build/demo/prompts.completions.jsonl
python3 scripts/score_answers.py datasets/prompts.jsonl build/demo/prompts.completions.jsonl
echo "completions: build/demo/prompts.completions.jsonl" >&2
