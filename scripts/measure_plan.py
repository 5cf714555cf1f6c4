#!/usr/bin/env python3
"""Compares the duration that `pagedinfer plan` estimates with that of the run.

  measure_plan.py PROGRAM [--pairs N] [FLAGS OF RUN]

Makes three files of different shape: long prompts with short completions, short prompts with long
completions, and lines that share prefixes. Plans and runs each N times in turn [3] with
--ignore-eos, and prints the medians and their ratio. Exits with 1 where one is off by more than a
quarter. REQUIRES: nothing else computes meanwhile.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ALLOWED = 0.25


def line(random_, head, num_prompt, max_tokens):
    ids = head + [random_.randrange(20, 400) for _ in range(num_prompt)]
    return json.dumps({"prompt_token_ids": ids, "max_tokens": max_tokens}) + "\n"


def shapes():
    """Yields the name and the lines of each file."""
    r = random.Random(16)
    yield "long prompts", [line(r, [], r.randrange(1500, 3000), r.randrange(5, 30))
                           for _ in range(60)]
    yield "long completions", [line(r, [], r.randrange(5, 60), r.randrange(200, 500))
                               for _ in range(300)]
    heads = [[r.randrange(20, 400) for _ in range(512)] for _ in range(4)]
    yield "shared prefixes", [line(r, r.choice(heads), r.randrange(20, 200), r.randrange(20, 200))
                              for _ in range(400)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=3)
    options, flags = parser.parse_known_args()
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="pagedinfer-plan-") as name:
        folder = pathlib.Path(name)
        for shape, lines in shapes():
            (folder / "in.jsonl").write_text("".join(lines), encoding="utf-8")
            common = ["--input", str(folder / "in.jsonl"), "--ignore-eos", *flags]
            planned, measured = [], []
            for _ in range(options.pairs):
                plan = subprocess.run([options.program, "plan", "--json", *common], check=True,
                                      capture_output=True, text=True)
                planned.append(json.loads(plan.stdout)["duration"]["total_s"])
                subprocess.run([options.program, "run", "--quiet", "--overwrite", *common],
                               check=True)
                stats = (folder / "in.stats.jsonl").read_text(encoding="utf-8")
                measured.append(json.loads(stats.splitlines()[-1])["time_total_s"])
            plan, run = statistics.median(planned), statistics.median(measured)
            print(f"{shape:<18}plan {plan:8.3f} s   run {run:8.3f} s   {plan / run - 1:+.1%}")
            worst = max(worst, abs(plan / run - 1))
    return worst > ALLOWED


if __name__ == "__main__":
    sys.exit(main())
