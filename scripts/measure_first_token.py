#!/usr/bin/env python3
"""Measures what the first step of a run pays for memory that nothing has touched yet.

  make_dummy_checkpoint.py --config datasets/configs/llama-3.2-1b-instruct --output DIR
  measure_first_token.py --model DIR [--program build/pagedinfer] [--against OTHER_PROGRAM]

Prompts of 64 tokens, one token of completion each, in batches that a step computes whole, so that
all steps do the same arithmetic. Before each run the checkpoint is read, which puts it into the
page cache. A line of results/first_token.jsonl has, for each batch size, the medians of

  process_s     from the start of the process to the end of the first step
  first_step_s  the first step
  later_step_s  the median of the steps after it: the arithmetic's own time
  ratio         first_step_s / later_step_s

With --against the two programs are run in turn and the other one's medians stand beside (other_*).
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

from benchmark import ROOT, record

PROMPT_TOKENS, BATCHES = 64, 5


def measure(program, model, folder, batch, threads):
    with open(model / "model.safetensors", "rb") as file:
        while file.read(1 << 24):
            pass
    noise = random.Random(batch)
    prompts, trace = folder / "prompts.jsonl", folder / "trace.jsonl"
    prompts.write_text("".join(
        json.dumps({"prompt_token_ids": [noise.randrange(1000, 100000) for _ in range(PROMPT_TOKENS)],
                    "max_tokens": 1}) + "\n" for _ in range(BATCHES * batch)))
    trace.unlink(missing_ok=True)
    start = time.monotonic()
    subprocess.run([program, "run", "--input", prompts, "--output", folder / "out.jsonl", "--overwrite",
                    "--model", model, "--threads", str(threads), "--max-batch-size", str(batch),
                    "--trace", trace, "--quiet", "--stats", os.devnull], check=True)
    whole = time.monotonic() - start
    steps = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    times = [step["end_s"] - step["begin_s"] for step in steps]
    if any(step["tokens"] != PROMPT_TOKENS * batch for step in steps):
        raise SystemExit("a step does not hold a whole batch")
    later = statistics.median(times[1:])
    return {"process_s": whole - (steps[-1]["end_s"] - steps[0]["end_s"]), "first_step_s": times[0],
            "later_step_s": later, "ratio": times[0] / later}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--program", default=str(ROOT / "build" / "pagedinfer"))
    parser.add_argument("--against", help="another build of the program")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-record", action="store_true", help="only print")
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
    for batch in (1, 8):
        found, other = [], []
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for _ in range(args.repeats):
                found.append(measure(args.program, args.model, folder, batch, args.threads))
                if args.against:
                    other.append(measure(args.against, args.model, folder, batch, args.threads))
        figures = {"batch": batch, "prompt_tokens": PROMPT_TOKENS, "threads": args.threads,
                   "layers": config["num_hidden_layers"], "hidden": config["hidden_size"]}
        for prefix, runs in (("", found), ("other_", other)):
            figures |= {prefix + key: round(statistics.median(run[key] for run in runs), 4)
                        for key in (runs[0] if runs else {})}
        print(json.dumps(figures))
        if not args.no_record:
            record("first_token", "scripts/measure_first_token.py", figures)


if __name__ == "__main__":
    main()
