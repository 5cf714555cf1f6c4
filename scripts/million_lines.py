#!/usr/bin/env python3
"""Peak memory and throughput over inputs of growing length: tiny prompts, one token each.

    scripts/million_lines.py                          10,000, 100,000 and 1,000,000 lines, both orders
    scripts/million_lines.py --counts 10000,100000    shorter; --out FILE appends JSON lines there

Takes the program that is built in build/ and the bundled model. Fails if the peak over the longest
input is more than 32 MiB above that over the shortest one.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmark import machine, output_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAX_GROWTH = 32 << 20


def write_input(path, count):
    with open(path, "w") as file:
        for i in range(count):
            file.write('{"id":%d,"prompt":"Nora %d"}\n' % (i, i % 97))


def run(program, folder, count, order, threads):
    """Runs it to the end; peak memory as the system has counted it."""
    output = os.path.join(folder, "out.jsonl")
    command = [program, "run", "--input", os.path.join(folder, "in.jsonl"), "--output", output,
               "--stats", os.path.join(folder, "stats.jsonl"), "--order", order,
               "--max-tokens", "1", "--overwrite", "--quiet"]
    if threads:
        command += ["--threads", str(threads)]
    begin = time.monotonic()
    # A process of its own makes the program: what a small one had in memory counts for it too.
    timed = subprocess.run(
        [sys.executable, "-c", "import resource, subprocess, sys\n"
         "code = subprocess.call(sys.argv[1:])\n"
         "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
         "sys.exit(code)"] + command, stdout=subprocess.PIPE, check=True)
    seconds = time.monotonic() - begin
    with open(output, "rb") as file:
        lines = sum(1 for _ in file)
    if lines != count:
        raise SystemExit(f"{count} lines of input gave {lines} records")
    return {"peak_rss_bytes": int(timed.stdout) << 10, "seconds": round(seconds, 2),
            "requests_per_second": round(count / seconds, 1),
            "output_bytes": os.path.getsize(output)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="10000,100000,1000000")
    parser.add_argument("--orders", default="input,completion")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "pagedinfer"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", help="file to append a JSON line per run to")
    args = parser.parse_args()

    origin = {"commit": output_of("git", "rev-parse", "--short", "HEAD"), "machine": machine(),
              "command": f"scripts/million_lines.py --counts {args.counts}"}
    grows = False
    for order in args.orders.split(","):
        peaks = []
        for count in map(int, args.counts.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                write_input(os.path.join(folder, "in.jsonl"), count)
                result = run(args.program, folder, count, order, args.threads)
            peaks.append(result["peak_rss_bytes"])
            line = json.dumps({**origin, "kind": "million_lines", "order": order, "lines": count,
                               "max_tokens": 1, **result})
            print(line, flush=True)
            if args.out:
                with open(args.out, "a") as file:
                    file.write(line + "\n")
        growth = peaks[-1] - peaks[0]
        print(f"order {order}: {growth / (1 << 20):+.1f} MiB from the first to the last",
              file=sys.stderr)
        grows = grows or growth > MAX_GROWTH
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
