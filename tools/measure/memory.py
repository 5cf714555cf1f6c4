"""Peak memory by length of the input, whose first line takes longest.

Records of later lines wait for the first one, since they are written in the order of the input.
"""
import pathlib
import tempfile

import runs

SLOW = {"prompt": "Once upon a time", "max_tokens": 3000, "ignore_eos": True}


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    parser.add_argument("--lines", type=int, nargs="+", default=[1000, 100000])


def measure(args):
    first = None
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        for count in args.lines:
            runs.write_lines(prompts, [SLOW])
            runs.append_lines(prompts, ({"id": i, "prompt": "Hi", "max_tokens": 1}
                                        for i in range(count - 1)))
            _, peak = runs.run(args.program, prompts, folder)
            first = first or peak
            above = (peak - first) / 1024
            print(f"{count:9} lines: peak {peak / 1024:.1f} MiB, {above:+.1f} MiB against "
                  f"{args.lines[0]} lines")
            runs.save(args, {"lines": count, "peak_kib": peak, "above_first_mib": round(above, 2)})
