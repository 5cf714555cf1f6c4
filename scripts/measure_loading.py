#!/usr/bin/env python3
"""Measures the time to the first token of a large model, what bounds it, and the memory it takes.

  make_dummy_checkpoint.py --config datasets/configs/llama-3.2-3b-instruct --output DIR
  measure_loading.py --model DIR [--program build/pagedinfer]

The prompt is one token, so that a step reads every weight once and does little else. Before each
run the file is read, which puts it into the page cache. A line of results/loading.jsonl has the
medians of

  first_token_s  from the start of the process: load_s, and then first_step_s
  first_step_s   the step in which the pages of the mapping are first touched
  later_step_s   one that finds them mapped
  first_gb_s, later_gb_s   the weights' bytes by these times
  read_gb_s      what reading the mapped file reaches, with as many threads, each its part
  peak_mib       resident memory at its highest, and plan_mib, what the memory plan says of it
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from benchmark import ROOT, record, run

READ_PART = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
part, of, size = int(sys.argv[2]), int(sys.argv[3]), 1 << 18
begin, end = len(data) * part // of, len(data) * (part + 1) // of
cached = bytearray(size)
for _ in range(2):  # the first time maps the pages
    start = time.monotonic()
    for at in range(begin, end - size, size):
        cached[:] = data[at:at + size]
    seconds = time.monotonic() - start
print((end - begin) / seconds / 1e9)
"""


def read_speed(path, threads):
    """GB/s of copying the mapped file to a buffer in the cache, all parts at once."""
    parts = [subprocess.Popen([sys.executable, "-c", READ_PART, str(path), str(i), str(threads)],
                              stdout=subprocess.PIPE, text=True) for i in range(threads)]
    return sum(float(part.communicate()[0]) for part in parts)


def measure(program, model, folder, threads):
    with open(model / "model.safetensors", "rb") as file:
        while file.read(1 << 24):
            pass
    prompts, trace = folder / "prompt.jsonl", folder / "trace.jsonl"
    prompts.write_text('{"prompt_token_ids": [5], "max_tokens": 6, "ignore_eos": true}\n')
    trace.unlink(missing_ok=True)
    summary, peak_kib = run(program, prompts, folder, "--model", str(model), "--threads", str(threads),
                            "--num-blocks", "64", "--max-batch-size", "1", "--max-step-tokens", "16",
                            "--prefill-chunk-size", "16", "--trace", str(trace))
    steps = [json.loads(line) for line in trace.read_text().splitlines()]
    ends = [step["end_s"] for step in steps]  # where steps overlap one begins before another ends
    times = [ends[0] - steps[0]["begin_s"]] + [b - a for a, b in zip(ends, ends[1:])]
    config, load = summary["config"], summary["time_load_s"]
    later = statistics.median(times[1:])
    weights = config["weight_bytes"]
    plan = weights + config["kv_bytes"] + config["activation_bytes"]
    return {"first_token_s": load + times[0], "load_s": load, "first_step_s": times[0],
            "later_step_s": later, "first_gb_s": weights / times[0] / 1e9,
            "later_gb_s": weights / later / 1e9, "weight_gb": weights / 1e9,
            "peak_mib": peak_kib / 1024, "plan_mib": plan / (1 << 20)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--program", default=str(ROOT / "build" / "pagedinfer"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-record", action="store_true", help="only print")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(args.program, args.model, pathlib.Path(folder), args.threads) |
                 {"read_gb_s": read_speed(args.model / "model.safetensors", args.threads)}
                 for _ in range(args.repeats)]
    medians = {name: round(statistics.median(f[name] for f in found), 4) for name in found[0]}
    print(json.dumps(medians, indent=2))
    if not args.no_record:
        config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
        record("loading", f"scripts/measure_loading.py --threads {args.threads}",
               {"model": config["architectures"][0], "threads": args.threads, **medians})


if __name__ == "__main__":
    main()
