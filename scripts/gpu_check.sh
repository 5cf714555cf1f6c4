#!/usr/bin/env bash
# Tests and measures on a machine with an NVIDIA GPU, from the programs of gpu_bundle.sh:
#
#   scripts/gpu_check.sh OUT tests|sanitizer|kernels|engine|peers|all
#
#   tests      every operation, model and equivalence test that needs a GPU
#   sanitizer  some of them under compute-sanitizer, where there is one that works
#   kernels    speed of kernels and products beside a copy's bandwidth and a large product's rate
#   engine     whole runs beside their goals; equal bytes with --deterministic; gpu_engine.py
#   peers      the same work by PyTorch and by transformers' continuous batching; gpu_peers.py
#
# PART:A,B runs some of a part: kernels:attention,product, engine:steps,start, peers:batching.
#
# Needs CUDA's driver, cuBLAS (PyTorch's will do) and, for engine and peers, Python, with PyTorch
# for peers; no network. A part takes less than 8 minutes. Results go to OUT: results.jsonl, a line
# of JSON each; a log for each part; table.txt, which is printed too. Exit code 1 if a part failed
# or could not be run. PAGEDINFER_CHECK_SMALL=1 tries engine and peers with tiny models on the CPU.
set -uo pipefail
cd "$(dirname "$0")/.."
known="tests sanitizer kernels engine peers"
out="${1:-}" asked="${2:-}"
[ -n "$out" ] && [ -n "$asked" ] || { echo "usage: gpu_check.sh OUT ${known// /|}|all" >&2; exit 1; }
[ "$asked" != all ] || asked="$known"
for part in $asked; do
  [[ " $known " == *" ${part%%:*} "* ]] ||
    { echo "gpu_check.sh: $part: expected one of $known, or all" >&2; exit 1; }
done
bin="${PAGEDINFER_BUNDLE:-$PWD/build-gpu}"
for program in pagedinfer pagedinfer_tests pagedinfer_kernel_bench; do
  [ -x "$bin/$program" ] || {
    echo "gpu_check.sh: $bin/$program is not there: scripts/gpu_bundle.sh makes it where the" \
      "program was built with CUDA" >&2
    exit 1
  }
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
results="$out/results.jsonl"
readonly limit=470            # seconds of a part
readonly sanitizer_limit=110  # of one of its tools
small="${PAGEDINFER_CHECK_SMALL:-0}"
failed=0

# PyTorch brings cuBLAS where the system has none; there may be several of other versions. Its own
# comes first, for PyTorch looks here too.
cublas=$(python3 - <<'PY' 2>/dev/null
import glob, os, sysconfig
roots = {sysconfig.get_paths()[k] for k in ("purelib", "platlib")}
found = {os.path.dirname(path) for root in roots
         for path in glob.glob(os.path.join(root, "nvidia", "*", "lib", "libcublasLt.so.*"))}
print(":".join(sorted(found)))
PY
)
for folder in "$cublas" /usr/local/cuda/lib64; do
  [ -z "$folder" ] || LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done
export LD_LIBRARY_PATH
export PAGEDINFER_TEST_SOURCE="$PWD" PAGEDINFER_TEST_PROGRAM="$bin/pagedinfer"

text() { tr -d '"\\' | tr '\n\t' '  ' | tail -c 300; }  # as a string of JSON may hold it

note() { # part, ok or not, seconds, more members of JSON
  printf '{"kind":"part","part":"%s","ok":%s,"seconds":%d%s}\n' "$1" "$2" "$3" "${4:-}" >>"$results"
  [ "$2" = true ] || failed=1
}

# "" or why the program cannot use a GPU here.
problem() {
  local folder
  folder=$(mktemp -d)
  "$bin/pagedinfer" run --device cuda --quiet --input /dev/null --output "$folder/out.jsonl" \
    2>&1 >/dev/null | text
  rm -rf "$folder"
}

check_tests() {
  timeout "$limit" "$bin/pagedinfer_tests" -tc="on a GPU*${1:+$1*}" >"$out/tests.log" 2>&1
}

check_sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "SKIPPED: no compute-sanitizer" >"$out/sanitizer.log"
    return 0
  fi
  local few="on a GPU: rows of a table*,on a GPU: norms*,on a GPU: sums*,on a GPU: rope*"
  few+=",on a GPU: q is*,on a GPU: attention is near*,on a GPU: the same logits*"
  local tool code=0
  for tool in memcheck racecheck synccheck; do
    PAGEDINFER_TEST_SCALE=0.1 timeout "$sanitizer_limit" compute-sanitizer --tool "$tool" \
      --error-exitcode 9 --print-limit 20 "$bin/pagedinfer_tests" -tc="$few" 2>&1 | tail -n 400 \
      >"$out/sanitizer.part"
    local ended=${PIPESTATUS[0]}
    cat "$out/sanitizer.part"
    if grep -q "Device not supported" "$out/sanitizer.part"; then
      echo "SKIPPED: $tool does not work on this machine"
      break
    fi
    echo "$tool: exit code $ended"
    # Out of time is not an error that was found.
    [ "$ended" -eq 0 ] || [ "$ended" -eq 124 ] || code=1
  done >"$out/sanitizer.log"
  rm -f "$out/sanitizer.part"
  return "$code"
}

# Runs a command whose lines of JSON are results.
measure() { # part, command
  local part="$1"
  shift
  timeout "$limit" "$@" >"$out/$part.log" 2>&1
  local code=$?
  [ "$code" -ne 124 ] || echo "stopped after $limit seconds" >>"$out/$part.log"
  grep '^{' "$out/$part.log" >>"$results"
  return "$code"
}
check_kernels() { # shellcheck disable=SC2086
  measure kernels "$bin/pagedinfer_kernel_bench" ${1//,/ }
}
check_engine() { # shellcheck disable=SC2086
  measure engine python3 -u scripts/gpu_engine.py "$bin/pagedinfer" ${1//,/ }
}
check_peers() { # shellcheck disable=SC2086
  measure peers python3 -u scripts/gpu_peers.py "$bin/pagedinfer" ${1//,/ }
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
  head -1 | while IFS= read -r gpu; do printf '{"kind":"gpu","gpu":"%s"}\n' "$gpu"; done >>"$results"
obstacle=$(problem)
[ -z "$obstacle" ] || echo "gpu_check.sh: no GPU can be used here: $obstacle" >&2
for word in $asked; do
  part="${word%%:*}" some="${word#"$part"}" some="${some#:}"
  tried=$([[ "$small" != 0 && "$part" =~ ^(engine|peers)$ ]] && echo yes || echo no)
  if [ -n "$obstacle" ] && [ "$tried" = no ]; then
    note "$part" false 0 ",\"not_run\":\"$obstacle\""
    continue
  fi
  begin=$SECONDS
  "check_$part" "$some"
  code=$?
  ok=$([ "$code" -eq 0 ] && echo true || echo false)
  more=""
  if [ "$part" = tests ] || [ "$part" = sanitizer ]; then
    log="$out/$part.log"
    more=",\"skipped\":$(grep -c SKIPPED "$log")"
    cases=$(grep -oE 'test cases: +[0-9]+ \| +[0-9]+ passed \| +[0-9]+ failed' "$log" | tail -1)
    more+=",\"summary\":\"${cases:-$(tail -1 "$log" | text)}\""
  fi
  note "$part" "$ok" $((SECONDS - begin)) "$more"
  [ "$ok" = true ] || tail -15 "$out/$part.log" | cut -c1-300 >&2
done
python3 scripts/gpu_table.py "$results" | tee "$out/table.txt"
exit "$failed"
