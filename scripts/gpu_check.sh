#!/usr/bin/env bash
# Tests and measures on a machine with an NVIDIA GPU, from the programs of gpu_bundle.sh:
#
#   scripts/gpu_check.sh OUT tests|sanitizer|kernels|engine|peers|all
#
#   tests      every operation, model and equivalence test that needs a GPU
#   sanitizer  some of them under compute-sanitizer, where there is one that works
#   kernels    speed of kernels and products beside a copy's bandwidth
#   engine     whole runs: equal bytes with --deterministic, throughput with made-up weights
#   peers      the same shapes by PyTorch
#
# Needs CUDA's driver, cuBLAS (PyTorch's will do) and, for peers, Python with PyTorch; no network.
# A part takes less than 8 minutes. Results go to OUT: results.jsonl, a line of JSON each; a log
# for each part; table.txt, which is printed too. Exit code 1 if a part failed.
set -uo pipefail
cd "$(dirname "$0")/.."
out="${1:?OUT}" parts="${2:?tests|sanitizer|kernels|engine|peers|all}"
[ "$parts" != all ] || parts="tests sanitizer kernels engine peers"
bin="${PAGEDINFER_BUNDLE:-$PWD/build-gpu}"
mkdir -p "$out"
out=$(cd "$out" && pwd)
results="$out/results.jsonl"
readonly limit=470  # seconds of a part
failed=0

# PyTorch brings cuBLAS where the system has none.
cublas=$(python3 - <<'PY' 2>/dev/null
import glob, os, sysconfig
for root in {sysconfig.get_paths()[k] for k in ("purelib", "platlib")}:
    for path in glob.glob(os.path.join(root, "nvidia", "*", "lib", "libcublasLt.so.*")):
        print(os.path.dirname(path))
        raise SystemExit
PY
)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}${cublas:+:$cublas}"
export PAGEDINFER_TEST_SOURCE="$PWD" PAGEDINFER_TEST_PROGRAM="$bin/pagedinfer"

note() { # part, ok or not, seconds, more members of JSON
  printf '{"kind":"part","part":"%s","ok":%s,"seconds":%d%s}\n' "$1" "$2" "$3" "${4:-}" >>"$results"
  [ "$2" = true ] || failed=1
}

check_tests() {
  timeout "$limit" "$bin/pagedinfer_tests" -tc="on a GPU*" >"$out/tests.log" 2>&1
}

check_sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "SKIPPED: no compute-sanitizer" >"$out/sanitizer.log"
    return 0
  fi
  local few="on a GPU: rows of a table*,on a GPU: norms*,on a GPU: sums*,on a GPU: rope*"
  few+=",on a GPU: q is*,on a GPU: attention is near*,on a GPU: the same logits*"
  local tool code=0
  for tool in memcheck racecheck; do
    PAGEDINFER_TEST_SCALE=0.1 timeout $((limit / 2)) compute-sanitizer --tool "$tool" \
      --error-exitcode 9 --print-limit 20 "$bin/pagedinfer_tests" -tc="$few" 2>&1 | tail -n 400
    local ended=${PIPESTATUS[0]}
    echo "$tool: exit code $ended"
    # Out of time is not an error that was found.
    [ "$ended" -eq 0 ] || [ "$ended" -eq 124 ] || code=1
  done >"$out/sanitizer.log"
  return "$code"
}

check_kernels() {
  timeout "$limit" "$bin/pagedinfer_kernel_bench" >"$out/kernels.log" 2>&1
  local code=$?
  grep '^{' "$out/kernels.log" >>"$results"
  return "$code"
}

check_peers() {
  timeout "$limit" python3 scripts/gpu_peers.py >"$out/peers.log" 2>&1
  local code=$?
  grep '^{' "$out/peers.log" >>"$results"
  return "$code"
}

check_engine() {
  timeout "$limit" python3 scripts/gpu_engine.py "$bin/pagedinfer" >"$out/engine.log" 2>&1
  local code=$?
  grep '^{' "$out/engine.log" >>"$results"
  return "$code"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
  head -1 | while IFS= read -r gpu; do printf '{"kind":"gpu","gpu":"%s"}\n' "$gpu"; done >>"$results"
for part in $parts; do
  case "$part" in
    tests | sanitizer | kernels | engine | peers) ;;
    *) echo "gpu_check.sh: $part: expected tests, sanitizer, kernels, engine, peers or all" >&2
       exit 1 ;;
  esac
  begin=$SECONDS
  "check_$part"
  code=$?
  ok=$([ "$code" -eq 0 ] && echo true || echo false)
  more=""
  if [ "$part" = tests ] || [ "$part" = sanitizer ]; then
    log="$out/$part.log"
    more=",\"skipped\":$(grep -c SKIPPED "$log")"
    cases=$(grep -oE 'test cases: +[0-9]+ \| +[0-9]+ passed \| +[0-9]+ failed' "$log" | tail -1)
    more+=",\"summary\":\"${cases:-$(tail -1 "$log" | tr -d '"\\')}\""
  fi
  note "$part" "$ok" $((SECONDS - begin)) "$more"
  [ "$ok" = true ] || tail -15 "$out/$part.log" >&2
done
python3 scripts/gpu_table.py "$results" | tee "$out/table.txt"
exit "$failed"
