#!/usr/bin/env bash
# Runs nvcc as the arguments say, and keeps what check_kernels.py reads in OBJECT.kept: the PTX, and
# what ptxas says of each kernel. A build with PAGEDINFER_KEEP_KERNELS compiles kernels by it.
set -euo pipefail
arguments=("$@")
for ((i = 0; i < $#; ++i)); do
  if [ "${arguments[i]}" = -o ]; then kept="${arguments[i + 1]}.kept"; fi
done
rm -rf "$kept"
mkdir -p "$kept"
"$@" -keep -keep-dir "$kept" -Xptxas -v 2>"$kept/ptxas.txt" || { cat "$kept/ptxas.txt" >&2; exit 1; }
find "$kept" -type f ! -name '*.ptx' ! -name ptxas.txt -delete
