"""The demo prompts through the bundled model, by batch size.

Sizes take turns; the run with the median throughput of each is kept.
"""
import statistics
import tempfile

import runs

SIZES = (1, 8, 64, 256)


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    runs.add_repeats(parser)


def measure(args):
    found = {size: [] for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeats):
            for size in SIZES:
                summary, _ = runs.run(args.program, runs.PROMPTS, folder, "--max-batch-size", str(size))
                found[size].append(summary)
    base = statistics.median(summary["output_throughput"] for summary in found[1])
    print("batch   tokens/s out   tokens/s in + out   requests/s   ITL p50    against batch 1")
    for size in SIZES:
        ordered = sorted(found[size], key=lambda summary: summary["output_throughput"])
        middle = ordered[len(ordered) // 2]
        ratio = middle["output_throughput"] / base
        print(f"{size:5}   {middle['output_throughput']:12.0f}   {middle['total_token_throughput']:17.0f}   "
              f"{middle['request_throughput']:10.1f}   {middle['median_itl_ms']:6.2f} ms   {ratio:.2f}")
        runs.save(args, {"max_batch_size": size, "ratio_to_batch_1": round(ratio, 3),
                         "output_throughput_all": [round(s["output_throughput"], 1) for s in ordered],
                         "summary": middle})
