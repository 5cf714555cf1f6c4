"""Peak memory and throughput over inputs of growing length: tiny prompts, one token each.

Fails if the peak over the longest input is more than 32 MiB above the peak over the shortest one.
"""
import json
import pathlib
import sys
import tempfile
import time

import runs

MAX_GROWTH = 32 << 20


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    parser.add_argument("--counts", default="10000,100000,1000000", help="lines, the shortest first")
    parser.add_argument("--orders", default="input,completion")
    parser.add_argument("--threads", type=int)


def measure_once(args, folder, count, order):
    prompts, output = folder / "in.jsonl", folder / "run.jsonl"
    runs.write_lines(prompts, ({"id": i, "prompt": f"Nora {i % 97}"} for i in range(count)))
    threads = ["--threads", str(args.threads)] if args.threads else []
    begin = time.monotonic()
    _, peak_kib = runs.run(args.program, prompts, folder, "--order", order, "--max-tokens", "1", *threads)
    seconds = time.monotonic() - begin
    with open(output, "rb") as file:
        lines = sum(1 for _ in file)
    if lines != count:
        raise SystemExit(f"{count} lines of input gave {lines} records")
    return {"peak_rss_bytes": peak_kib << 10, "seconds": round(seconds, 2),
            "requests_per_second": round(count / seconds, 1), "output_bytes": output.stat().st_size}


def measure(args):
    grows = False
    for order in args.orders.split(","):
        peaks = []
        for count in map(int, args.counts.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                found = {"kind": "million_lines", "order": order, "lines": count, "max_tokens": 1,
                         **measure_once(args, pathlib.Path(folder), count, order)}
            peaks.append(found["peak_rss_bytes"])
            print(json.dumps(found), flush=True)
            runs.save(args, found)
        growth = peaks[-1] - peaks[0]
        print(f"order {order}: {growth / (1 << 20):+.1f} MiB from the first to the last", file=sys.stderr)
        grows = grows or growth > MAX_GROWTH
    return 1 if grows else 0
