#!/usr/bin/env bash
# Puts the programs that gpu_check.sh runs, stripped, and the shared libraries that a bare machine
# lacks into build-gpu/: `scripts/gpu_bundle.sh [BUILD]`. They start wherever there
# are a C and a C++ library, from beside the repository's datasets/. The headers of fmt are for
# tools/gpu/lab.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
build="${1:-build}" out=build-gpu max_kib=$((128 * 1024))
programs=(pagedinfer tests/pagedinfer_tests pagedinfer_kernel_bench)
cmake --build "$build" --target "${programs[@]##*/}"
rm -rf "$out"
mkdir -p "$out/lib"
for program in "${programs[@]}"; do
  strip -o "$out/${program##*/}" "$build/$program"
  ldd "$build/$program"
done | awk '$3 ~ /^\// { print $3 }' | sort -u |
  grep -Ev '/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so' | while read -r library; do
    strip -o "$out/lib/${library##*/}" "$(readlink -f "$library")"
  done

for program in "${programs[@]}"; do
  elsewhere=$(env -i ldd "$out/${program##*/}" | awk '$3 ~ /^\// { print $3 }' |
    grep -Ev "^$PWD/$out/lib/|/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so" || true)
  if [ -n "$elsewhere" ]; then
    echo "$program would look for libraries of this machine: $elsewhere" >&2
    exit 1
  fi
done
env -i "$out/pagedinfer" --version
# For tools/gpu/lab.sh.
mkdir -p "$out/include"
cp -r /usr/include/fmt "$out/include/"
kib=$(du -sk "$out" | cut -f1)
echo "$out: $((kib / 1024)) MiB"
[ "$kib" -le "$max_kib" ] || { echo "more than $((max_kib / 1024)) MiB" >&2; exit 1; }
