"""What syncing to the disk costs: --sync-every, with 20,000 short completions.

They are synced at the end only, every 5 s (the default), and every 0.1 s.
"""
import pathlib
import statistics
import tempfile

import runs


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    runs.add_repeats(parser)


def measure(args):
    found = {"0": [], "5": [], "0.1": []}
    with tempfile.TemporaryDirectory(dir=runs.ROOT / "build") as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        runs.write_lines(prompts, ({"id": i, "prompt": f"Once {i}", "max_tokens": 4} for i in range(20000)))
        for _ in range(args.repeats):
            for every, rates in found.items():
                summary, _ = runs.run(args.program, prompts, folder, "--sync-every", every)
                rates.append(summary["request_throughput"])
    base = statistics.median(found["0"])
    for every, rates in found.items():
        middle = statistics.median(rates)
        ratio = middle / base
        print(f"--sync-every {every}: {middle:.0f} requests/s, {ratio:.3f} of syncing at the end only")
        runs.save(args, {"sync_every_s": float(every), "ratio_to_end_only": round(ratio, 4),
                         "request_throughput_all": sorted(round(rate, 1) for rate in rates)})
