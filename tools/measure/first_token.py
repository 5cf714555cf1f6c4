"""What the first step of a run pays for memory that nothing has touched yet.

    tools/goldens/make_dummy_checkpoint.py --config datasets/configs/llama-3.2-1b-instruct --output DIR
    python3 tools/measure first_token --model DIR

Prompts of 64 tokens, one token of completion each, in batches that a step computes whole, so that
all steps do the same arithmetic. Before each run the checkpoint is read, which puts it into the
page cache. There are, for each batch size, the medians of

    process_s     from the start of the process to the end of the first step
    first_step_s  the first step
    later_step_s  the median of the steps after it: the arithmetic's own time
    ratio         first_step_s / later_step_s

With --against two programs are run in turn, and the medians of the other one are other_*.
"""
import json
import os
import pathlib
import random
import statistics
import tempfile
import time

import runs

PROMPT_TOKENS, BATCHES = 64, 5


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    runs.add_repeats(parser)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--against", help="another build of the program")
    parser.add_argument("--threads", type=int, default=os.cpu_count())


def measure_once(program, model, folder, batch, threads):
    runs.read_into_page_cache(model / "model.safetensors")
    noise, prompts = random.Random(batch), folder / "prompts.jsonl"
    runs.write_lines(prompts, [
        {"prompt_token_ids": [noise.randrange(1000, 100000) for _ in range(PROMPT_TOKENS)],
         "max_tokens": 1} for _ in range(BATCHES * batch)])
    start = time.monotonic()
    _, _, steps = runs.run_traced(program, prompts, folder, "--model", str(model), "--threads", str(threads),
                                  "--max-batch-size", str(batch))
    whole = time.monotonic() - start
    times = [step["end_s"] - step["begin_s"] for step in steps]
    if any(step["tokens"] != PROMPT_TOKENS * batch for step in steps):
        raise SystemExit("a step does not hold a whole batch")
    later = statistics.median(times[1:])
    return {"process_s": whole - (steps[-1]["end_s"] - steps[0]["end_s"]), "first_step_s": times[0],
            "later_step_s": later, "ratio": times[0] / later}


def measure(args):
    config = json.loads((args.model / "config.json").read_text(encoding="utf-8"))
    programs = {"": args.program} | ({"other_": args.against} if args.against else {})
    for batch in (1, 8):
        found = {prefix: [] for prefix in programs}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(args.repeats):
                for prefix, program in programs.items():
                    found[prefix].append(
                        measure_once(program, args.model, pathlib.Path(folder), batch, args.threads))
        figures = {"batch": batch, "prompt_tokens": PROMPT_TOKENS, "threads": args.threads,
                   "layers": config["num_hidden_layers"], "hidden": config["hidden_size"]}
        for prefix, of in found.items():
            figures |= {prefix + key: value for key, value in runs.medians(of).items()}
        print(json.dumps(figures))
        runs.save(args, figures)
