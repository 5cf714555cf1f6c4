#!/usr/bin/env python3
"""Whole runs on a GPU: engine.py PROGRAM [PART ...].

  steps          decode steps of Llama-3.2-3B at a context of 512 beside the per-operation floor
  gaps           what of a decode step is not the device, by --profile
  prefill        prompts of 2,048 tokens
  offline        1,000 requests of 512 in and 256 out, three models with made-up weights
  deterministic  the same in turns without and with --deterministic, twice
  sampled        the same with temperature, top-k and top-p
  quantized      the same, and steps of one sequence, with weights in int8
  cache_int8     the same, and steps of 64 sequences, with the cache in int8
  start          from the start of the process to a token, with weights from a file
  bytes          with --deterministic every configuration gives the same bytes
  agreement      greedy answers of the bundled model beside the CPU's

`first` is the smallest run of gaps. Prints a line of JSON each. Exits with 1 if a run failed or bytes differ. With
PAGEDINFER_CHECK_SMALL=1 all of it is tried with tiny models on the CPU."""
import functools
import pathlib
import statistics
import subprocess
import sys
import tempfile

from runs import (DEVICE, ROOT, SMALL, STEP_TOKENS, OutOfTime, dummy, model_of, random_prompts,
                  report, report_measure, run, seconds_left, write_prompts)

LLAMA = "llama-3.2-3b-instruct"
CONFIGURATIONS = [
    [],
    ["--max-batch-size", "3"],
    ["--prefill-chunk-size", "17", "--max-step-tokens", "64", "--max-batch-size", "33"],
    ["--chunked-prefill", "off"],
    ["--block-size", "5"],
    ["--num-blocks", "40"],
    ["--kv", "contiguous"],
    ["--batching", "static", "--max-batch-size", "16"],
]
# The least milliseconds of a decode step on an H200: operation after operation, each at 4.3 TB/s or
# at 790 TFLOP/s.
STEP_FLOORS = {1: 1.51, 64: 2.48, 256: 5.83}
OFFLINE_GOALS = {LLAMA: 18970, "qwen3-4b": 14750, "gemma-3-1b-it": 71300}
OFFLINE = (1000, 512, 256) if not SMALL else (12, 24, 8)


def decode_intervals(summary: dict, batch: int) -> list[float]:
    """Milliseconds from the end of one decode step of a whole batch to that of the next. A step may
    begin before the one before has ended."""
    steps = summary["steps_of"]

    def whole(step: dict) -> bool:
        return step["prefill_tokens"] == 0 and step["decode_tokens"] == batch

    intervals = [1e3 * (b["end_s"] - a["end_s"]) for a, b in zip(steps, steps[1:])
                 if whole(a) and whole(b)]
    if not intervals:
        raise RuntimeError(f"no two decode steps of {batch} follow each other")
    return intervals


def steps(program: str, work: pathlib.Path) -> None:
    warm(program, work, LLAMA)
    context, generated = (512, 64) if not SMALL else (24, 8)
    for batch, floor in STEP_FLOORS.items():
        batch = min(batch, 4) if SMALL else batch
        # In the middle of a completion the context is what it should be.
        prompts = write_prompts(work / "steps.jsonl",
                                random_prompts(batch, context - generated // 2))
        summary = run(program, prompts, work / "steps.out",
                      dummy(LLAMA, generated, 1024, "--max-batch-size", str(batch)))
        intervals = decode_intervals(summary, batch)
        report_measure(f"decode step {LLAMA} batch {batch} context {context}",
                       statistics.median(intervals), "ms", at_most=round(1.25 * floor, 3),
                       floor=floor, steps=len(intervals), most=round(max(intervals), 3))


def gaps(program: str, work: pathlib.Path) -> None:
    warm(program, work, LLAMA)
    gaps_of(program, work, (1, 64, 256) if not SMALL else (1, 3))


def gaps_of(program: str, work: pathlib.Path, batches: tuple[int, ...]) -> None:
    for batch in batches:
        prompts = write_prompts(work / "gaps.jsonl",
                                random_prompts(batch, 480 if not SMALL else 20))
        summary = run(program, prompts, work / "gaps.out",
                      dummy(LLAMA, 64 if not SMALL else 8, 1024, "--max-batch-size", str(batch),
                            "--profile"))
        profile = summary["profile"]
        report_measure(f"host gap per decode step, batch {batch}",
                       profile["median_decode_gap_ms"], "ms", at_most=0.05, profile=profile)


def first(program: str, work: pathlib.Path) -> None:
    if SMALL:
        steps(program, work)  # the peaks that --profile measures take the emulated device minutes
    else:
        gaps_of(program, work, (64,))  # without the time that warm() takes


def prefill(program: str, work: pathlib.Path) -> None:
    warm(program, work, LLAMA)
    count, length = (128, 2048) if not SMALL else (60, 48)
    prompts = write_prompts(work / "prefill.jsonl", random_prompts(count, length))
    summary = run(program, prompts, work / "prefill.out",
                  dummy(LLAMA, 1, 4 * length, "--max-batch-size", "64", "--prefill-chunk-size",
                        str(length)))
    trace = summary["steps_of"]
    first, *later = trace[1:] if len(trace) > 4 else trace  # kernels are loaded at their first use
    tokens = sum(step["prefill_tokens"] for step in later)
    report_measure(f"prefill {LLAMA}, prompts of {length}",
                   tokens / (later[-1]["end_s"] - first["end_s"]), "tokens/s",
                   at_least=75000, of_all_steps=summary["input_throughput"])


@functools.cache
def warm(program: str, work: pathlib.Path, model: str, *more: str) -> None:
    """Short runs, after which the file of algorithms has those of the most frequent numbers of rows: a
    start times some of them only."""
    prompts = write_prompts(work / "warm.jsonl", random_prompts(1, 16))
    for _ in range(4 if not SMALL else 1):
        run(program, prompts, work / "warm.out",
            dummy(model, 2, 1024, "--max-batch-size", "512", *more))


@functools.cache
def offline_run(program: str, work: pathlib.Path, model: str, turn: int, *more: str) -> dict:
    """`turn` tells runs with the same flags apart."""
    warm(program, work, model)
    count, length, generated = OFFLINE
    prompts = write_prompts(work / "offline.jsonl", random_prompts(count, length))
    return run(program, prompts, work / f"offline-{turn}.out",
               dummy(model, generated, 1024, "--max-batch-size", "512", *more))


def what_offline(model: str) -> str:
    count, length, generated = OFFLINE
    return f"offline {model}, {count} x {length} in, {generated} out"


def summary_of(run_of: dict) -> dict:
    return {key: value for key, value in run_of.items() if key not in ("steps_of", "profile")}


def offline(program: str, work: pathlib.Path) -> None:
    for model, goal in OFFLINE_GOALS.items():
        summary = offline_run(program, work, model, 0)
        report_measure(what_offline(model), summary["output_throughput"], "tokens/s",
                       at_least=goal, summary=summary_of(summary))


def deterministic(program: str, work: pathlib.Path) -> None:
    # In turns, so that a card that gets slower favours neither.
    fast, fixed = [], []
    for turn in range(2):
        fast.append(offline_run(program, work, LLAMA, turn))
        fixed.append(offline_run(program, work, LLAMA, turn, "--deterministic"))
    rates = [[summary["output_throughput"] for summary in runs] for runs in (fast, fixed)]
    report_measure(f"throughput kept with --deterministic, {what_offline(LLAMA)}",
                   sum(rates[1]) / sum(rates[0]), "", at_least=0.95, fast=rates[0],
                   deterministic=rates[1],
                   **{key: value for key, value in fixed[0]["config"].items()
                      if key in ("gpu", "product_buckets", "product_buckets_fallen_back")})
    report_measure(f"spread of the same run twice, {what_offline(LLAMA)}",
                   max(rates[0]) / min(rates[0]) - 1, "")
    loads = [[summary["time_load_s"] for summary in runs] for runs in (fast, fixed)]
    report_measure("load with --deterministic over without", min(loads[1]) - min(loads[0]), "s",
                   at_most=0.3)


def sampled(program: str, work: pathlib.Path) -> None:
    filters = ("--temperature", "0.8", "--top-k", "50", "--top-p", "0.95")
    for model in (LLAMA, "gemma-3-1b-it"):
        greedy = offline_run(program, work, model, 0)
        drawn = offline_run(program, work, model, 0, *filters)
        report_measure(f"throughput kept with top-k and top-p, {what_offline(model)}",
                       drawn["output_throughput"] / greedy["output_throughput"], "",
                       greedy=greedy["output_throughput"], drawn=drawn["output_throughput"])


def compare_int8(program: str, work: pathlib.Path, what: str, flags: list[str], batch: int,
                 context: int) -> None:
    """Throughput and decode steps with `what` in int8 beside those without."""
    usual = offline_run(program, work, LLAMA, 0)
    eight = offline_run(program, work, LLAMA, 0, *flags)
    report_measure(f"throughput with {what} in int8, {what_offline(LLAMA)}",
                   eight["output_throughput"] / usual["output_throughput"], "times",
                   usual=usual["output_throughput"], int8=eight["output_throughput"])
    context, generated = (context, 64) if not SMALL else (24, 8)
    batch = min(batch, 4) if SMALL else batch
    prompts = write_prompts(work / "int8.jsonl", random_prompts(batch, context - generated // 2))
    all_flags = dummy(LLAMA, generated, 2 * context, "--max-batch-size", str(batch))
    medians = [statistics.median(decode_intervals(
        run(program, prompts, work / "int8.out", all_flags + more), batch))
        for more in ([], flags)]
    report_measure(f"decode step with {what} in int8 {LLAMA} batch {batch} context {context}",
                   medians[1], "ms", usual=round(medians[0], 4))


def quantized(program: str, work: pathlib.Path) -> None:
    compare_int8(program, work, "weights", ["--quantize", "int8"], 1, 512)


def cache_int8(program: str, work: pathlib.Path) -> None:
    compare_int8(program, work, "the cache", ["--kv-dtype", "int8"], 64, 2048)


def start(program: str, work: pathlib.Path) -> None:
    checkpoint = work / "checkpoint"
    config = ROOT / "datasets" / (model_of(LLAMA) if SMALL else f"configs/{LLAMA}")
    subprocess.run([sys.executable, str(ROOT / "tools/goldens/make_dummy_checkpoint.py"), "--config",
                    str(config), "--output", str(checkpoint)], check=True, capture_output=True,
                   timeout=seconds_left())
    prompts = write_prompts(work / "start.jsonl", random_prompts(1, 32))
    flags = ["--device", DEVICE, "--model", str(checkpoint), "--ignore-eos", "--max-tokens", "1",
             "--max-model-len", "1024", "--max-step-tokens", str(STEP_TOKENS)]
    runs = [run(program, prompts, work / "start.out", flags) for _ in range(3)]
    best = min(runs[1:], key=lambda r: r["wall_s"])  # the first one may read the disk
    size = sum(path.stat().st_size for path in checkpoint.iterdir())
    report_measure(f"start of the process to its end, one token, {size / 1e9:.1f} GB of weights",
                   best["wall_s"], "s", at_most=4, load_s=best["time_load_s"],
                   ttft_ms=best["mean_ttft_ms"], first_run_s=round(runs[0]["wall_s"], 3))


def bytes_of_all(program: str, work: pathlib.Path) -> bool:
    prompts = ROOT / "datasets/prompts.jsonl"
    same = True
    for dtype, cache in (("bfloat16", "auto"), ("float32", "auto"), ("float16", "auto"),
                         ("bfloat16", "int8")):
        expected = None
        for number, flags in enumerate(CONFIGURATIONS):
            output = work / f"{dtype}-{cache}-{number}.out"
            run(program, prompts, output,
                ["--device", DEVICE, "--deterministic", "--dtype", dtype, "--kv-dtype", cache,
                 "--token-ids", "--max-model-len", "512", *flags])
            found = output.read_bytes()
            expected = found if expected is None else expected
            equal = found == expected
            same &= equal
            report("engine", what=f"bytes of {dtype}, cache {cache}: {' '.join(flags) or 'defaults'}",
                   result="equal" if equal else "DIFFERENT")
    return same


def agreement(program: str, work: pathlib.Path) -> None:
    prompts = ROOT / "datasets/prompts.jsonl"
    for dtype in ("float32", "bfloat16"):
        for device in ("cpu", DEVICE):
            run(program, prompts, work / f"agreement-{device}.out",
                ["--device", device, "--dtype", dtype, "--token-ids", "--temperature", "0"])
        lines = [(work / f"agreement-{device}.out").read_text().splitlines()
                 for device in ("cpu", DEVICE)]
        same = sum(a == b for a, b in zip(*lines))
        report("engine", what=f"{dtype} greedy, lines equal to the CPU's",
               result=f"{same} of {len(lines[0])}")


PARTS = {"steps": steps, "gaps": gaps, "prefill": prefill, "offline": offline,
         "deterministic": deterministic, "sampled": sampled,
         "quantized": quantized, "cache_int8": cache_int8, "start": start,
         "bytes": bytes_of_all, "agreement": agreement}


def main() -> int:
    program, names = sys.argv[1], sys.argv[2:] or list(PARTS)
    parts = PARTS | {"first": first}  # which is part of gaps
    if unknown := [name for name in names if name not in parts]:
        print(f"engine.py: {unknown[0]}: expected one of {', '.join(PARTS)}", file=sys.stderr)
        return 1
    code = 0
    with tempfile.TemporaryDirectory() as name:
        for part in names:
            try:
                if parts[part](program, pathlib.Path(name)) is False:
                    code = 1
            except OutOfTime:
                report("engine", what=part, result="FAILED: the part's time was over")
                code = 1
            except (RuntimeError, subprocess.SubprocessError, KeyError, OSError) as error:
                report("engine", what=part, result=f"FAILED: {type(error).__name__}: {error}")
                code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
