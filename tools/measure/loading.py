"""The time to the first token of a large model, what bounds it, and the memory it takes.

    tools/goldens/make_dummy_checkpoint.py --config datasets/configs/llama-3.2-3b-instruct --output DIR
    python3 tools/measure loading --model DIR

The prompt is one token, so that a step reads every weight once and does little else. Before each
run the file is read, which puts it into the page cache. The figures are medians:

    first_token_s  from the start of the process: load_s, and then first_step_s
    first_step_s   the step in which the pages of the mapping are first touched
    later_step_s   a step that finds them mapped
    first_gb_s, later_gb_s   the weights' bytes by these times
    read_gb_s      what reading the mapped file reaches, with as many threads, each its part
    peak_mib       resident memory at its highest; plan_mib: the memory plan's figure
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import runs

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


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    runs.add_repeats(parser)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())


def read_speed(path, threads):
    """GB/s of copying the mapped file to a buffer in the cache, all parts at once."""
    parts = [subprocess.Popen([sys.executable, "-c", READ_PART, str(path), str(i), str(threads)],
                              stdout=subprocess.PIPE, text=True) for i in range(threads)]
    return sum(float(part.communicate()[0]) for part in parts)


def measure_once(program, model, folder, threads):
    runs.read_into_page_cache(model / "model.safetensors")
    prompts = pathlib.Path(folder) / "prompt.jsonl"
    runs.write_lines(prompts, [{"prompt_token_ids": [5], "max_tokens": 6, "ignore_eos": True}])
    summary, peak_kib, steps = runs.run_traced(
        program, prompts, folder, "--model", str(model), "--threads", str(threads), "--num-blocks", "64",
        "--max-batch-size", "1", "--max-step-tokens", "16", "--prefill-chunk-size", "16")
    ends = [step["end_s"] for step in steps]  # where steps overlap one begins before another ends
    times = [ends[0] - steps[0]["begin_s"]] + [b - a for a, b in zip(ends, ends[1:])]
    config, load = summary["config"], summary["time_load_s"]
    later = statistics.median(times[1:])
    weights = config["weight_bytes"]
    plan = weights + config["kv_memory"] + config["activation_bytes"]
    return {"first_token_s": load + times[0], "load_s": load, "first_step_s": times[0],
            "later_step_s": later, "first_gb_s": weights / times[0] / 1e9,
            "later_gb_s": weights / later / 1e9, "weight_gb": weights / 1e9,
            "peak_mib": peak_kib / 1024, "plan_mib": plan / (1 << 20)}


def measure(args):
    with tempfile.TemporaryDirectory() as folder:
        found = [measure_once(args.program, args.model, folder, args.threads) |
                 {"read_gb_s": read_speed(args.model / "model.safetensors", args.threads)}
                 for _ in range(args.repeats)]
    figures = runs.medians(found)
    print(json.dumps(figures, indent=2))
    config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
    runs.save(args, {"model": config["architectures"][0], "threads": args.threads, **figures})
