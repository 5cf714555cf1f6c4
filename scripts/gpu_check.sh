#!/usr/bin/env bash
# Tests and measures on a machine with an NVIDIA GPU, from the programs of gpu_bundle.sh:
#
#   scripts/gpu_check.sh OUT PART ...
#
#   first      90 seconds that touch everything once
#   tests      every operation, model and equivalence test that needs a GPU
#   kernels    speed of kernels and products beside a copy's bandwidth and a large product's rate
#   probe      every algorithm that cuBLAS proposes for the models' products; whether those that
#              --deterministic chooses for each number of rows compute the same bits
#   engine     whole runs beside their goals; equal bytes with --deterministic (engine.py)
#   peers      the same work by PyTorch and by transformers' continuous batching (peers.py)
#   lab        builds the benchmarks of kernels there, by nvcc alone, and runs them (lab.sh)
#   ncu        what limits some kernels, by Nsight Compute, where there is one
#   sanitizer  some of the tests under compute-sanitizer, where there is one that works
#
# PART:A,B runs some of a part: kernels:attention,product, engine:steps,start, peers:batching,
# lab:attention_decode. A part takes less than 9 minutes. PAGEDINFER_LAB_FLAGS are flags of nvcc.
#
# Needs CUDA's driver, cuBLAS (PyTorch's will do) and, for engine and peers, Python, with PyTorch
# for peers; no network. Results go to OUT: results.jsonl, a line of JSON each; a log for each part;
# table.txt, which is printed too. table.py joins the results of several OUT. The files named here
# are in tools/gpu. Exit code 1 if a part failed or could not be run. PAGEDINFER_CHECK_SMALL=1 tries
# all but tests and sanitizer with tiny models; engine and peers then need no GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
known="first tests kernels probe engine peers lab ncu sanitizer"
out="${1:-}" asked="${*:2}"
[ -n "$out" ] && [ -n "$asked" ] || { echo "usage: gpu_check.sh OUT ${known// /|} ..." >&2; exit 1; }
for part in $asked; do
  [[ " $known " == *" ${part%%:*} "* ]] ||
    { echo "gpu_check.sh: $part: expected one of $known" >&2; exit 1; }
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
readonly limit=520            # seconds of a part
readonly sanitizer_limit=120  # of one of its tools
small="${PAGEDINFER_CHECK_SMALL:-0}"
bench_flags=()
[ "$small" = 0 ] || bench_flags=(--small)
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
  "$bin/pagedinfer" run --device cuda --gpu-cache none --quiet --input /dev/null --output "$folder/out.jsonl" \
    --stats "$folder/stats.jsonl" >"$folder/said" 2>&1 || text <"$folder/said"
  rm -rf "$folder"
}

check_tests() {
  timeout "$limit" "$bin/pagedinfer_tests" -d -tc="on a GPU*${1:+$1*}" >"$out/tests.log" 2>&1
}

check_sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "SKIPPED: no compute-sanitizer" >"$out/sanitizer.log"
    return 0
  fi
  local few="on a GPU: rows of a table*,on a GPU: norms*,on a GPU: sums*,on a GPU: rope*"
  few+=",on a GPU: q is*,on a GPU: attention is close*,on a GPU: the same logits*"
  few+=",on a GPU: products and tables in int8*"
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
    # Out of time is not an error that was found, but it is no check of all either.
    [ "$ended" -ne 124 ] || echo "SKIPPED: $tool: the rest, out of time"
    [ "$ended" -eq 0 ] || [ "$ended" -eq 124 ] || code=1
  done >"$out/sanitizer.log"
  rm -f "$out/sanitizer.part"
  return "$code"
}

# Runs a command whose lines of JSON are results.
measure() { # part, seconds, command
  local part="$1" seconds="$2"
  shift 2
  timeout "$seconds" "$@" >"$out/$part.part" 2>&1
  local code=$?
  [ "$code" -ne 124 ] || echo "stopped after $seconds seconds" >>"$out/$part.part"
  grep '^{.*}$' "$out/$part.part" >>"$results"  # a line may have been cut off
  cat "$out/$part.part" >>"$out/$part.log"
  rm "$out/$part.part"
  return "$code"
}
check_first() {
  local code=0 slow=1
  [ "$small" = 0 ] || slow=6  # the emulated device
  local few="on a GPU: rows of a table*,on a GPU: products*,on a GPU: attention is close*"
  few+=",on a GPU: a replayed step*,on a GPU: the same logits*"
  nvidia-smi >"$out/first.log" 2>&1
  PAGEDINFER_TEST_SCALE=0.1 timeout $((30 * slow)) "$bin/pagedinfer_tests" -d -tc="$few" \
    >>"$out/first.log" 2>&1 || code=1
  measure first $((25 * slow)) "$bin/pagedinfer_kernel_bench" "${bench_flags[@]}" gate attention_prefill || code=1
  measure first $((35 * slow)) python3 -u tools/gpu/engine.py "$bin/pagedinfer" first || code=1
  return "$code"
}
check_kernels() { # shellcheck disable=SC2086
  local words="${1//,/ }"
  measure kernels "$limit" "$bin/pagedinfer_kernel_bench" "${bench_flags[@]}" \
    ${words:-attention embed resolve norm gate add rope qkv kv sample product quantize expert}
}
check_probe() {
  measure probe "$limit" "$bin/pagedinfer_kernel_bench" "${bench_flags[@]}" probe proof
}
check_engine() { # shellcheck disable=SC2086
  measure engine "$limit" python3 -u tools/gpu/engine.py "$bin/pagedinfer" ${1//,/ }
}
check_peers() { # shellcheck disable=SC2086
  measure peers "$limit" python3 -u tools/gpu/peers.py "$bin/pagedinfer" ${1//,/ }
}
check_lab() { # shellcheck disable=SC2086
  if ! command -v nvcc >/dev/null; then
    echo "SKIPPED: no nvcc" >"$out/lab.log"
    return 0
  fi
  local folder code
  folder=$(mktemp -d)
  timeout 300 tools/gpu/lab.sh "$folder/bench" ${PAGEDINFER_LAB_FLAGS:-} >"$out/lab.log" 2>&1 &&
    measure lab 200 "$folder/bench" "${bench_flags[@]}" ${1//,/ }
  code=$?
  rm -rf "$folder"
  return "$code"
}
check_ncu() {
  if ! command -v ncu >/dev/null; then
    echo "SKIPPED: no ncu" >"$out/ncu.log"
    return 0
  fi
  local shape code=0 ended model=llama-3.2-3b
  # A kernel and the benchmark that launches it: --kill ends each after its kernel was profiled.
  while IFS=, read -r kernel shape; do
    timeout 60 ncu --clock-control none --launch-skip 2 --launch-count 1 --kill yes \
      --kernel-name-base demangled --kernel-name "regex:$kernel" \
      --section SpeedOfLight --section MemoryWorkloadAnalysis --section WarpStateStats \
      --section Occupancy "$bin/pagedinfer_kernel_bench" "${bench_flags[@]}" "$shape" \
      >"$out/ncu.part" 2>&1
    ended=$?
    printf '\n%s\n' "$shape" && cat "$out/ncu.part"
    [ "$ended" -eq 0 ] || grep -q "Duration" "$out/ncu.part" || code=1
  done >"$out/ncu.log" <<SHAPES
attention_tile,attention_decode@$model seqs=64 context=2048 queries=1
attention_tile,attention_decode@$model seqs=256 context=512 queries=1
attention_tile,attention_prefill@$model seqs=1 context=16384 queries=16384
norm,add_rms_norm@$model rows=64
draw,sample_filtered@$model rows=256
few_rows,product_int8@$model gate_up rows=64 n=16384 k=3072
tile_kernel,product_int8@$model gate_up rows=2048 n=16384 k=3072
SHAPES
  rm -f "$out/ncu.part"
  return "$code"
}

# Without a client that stays, each process starts the driver anew.
idle=""
if command -v nvidia-smi >/dev/null; then
  nvidia-smi dmon -d 60 >/dev/null 2>&1 &
  idle=$!
  trap 'kill "$idle" 2>/dev/null' EXIT
fi

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
  log="$out/$part.log"
  if grep -q SKIPPED "$log" || [[ "$part" =~ ^(first|tests|sanitizer)$ ]]; then
    more=",\"skipped\":$(grep -c SKIPPED "$log")"
    cases=$(grep -oE 'test cases: +[0-9]+ \| +[0-9]+ passed \| +[0-9]+ failed' "$log" | tail -1)
    more+=",\"summary\":\"${cases:-$(tail -1 "$log" | text)}\""
  fi
  note "$part" "$ok" $((SECONDS - begin)) "$more"
  # Now, so that a command that is stopped in a later part leaves it.
  python3 tools/gpu/table.py "$results" >"$out/table.txt"
  [ "$ok" = true ] || tail -15 "$out/$part.log" | cut -c1-300 >&2
done
python3 tools/gpu/table.py "$results" | tee "$out/table.txt"
exit "$failed"
