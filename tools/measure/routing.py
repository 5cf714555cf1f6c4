"""A block of experts on the CPU, chosen evenly and by Zipf's law, beside the machine's own bounds.

Runs pagedinfer_routing_bench; build it first.
"""
import json

import runs


def add_flags(parser):
    runs.add_save(parser)
    parser.add_argument("--threads", type=int, default=2, help="[2]")
    parser.add_argument("--types", nargs="+", default=["bf16", "int8", "int4"], help="[bf16 int8 int4]")


def measure(args):
    for kind in args.types:
        flags = ["--threads", str(args.threads), "--type", kind]
        program = runs.ROOT / "build" / "pagedinfer_routing_bench"
        points = [json.loads(line) for line in runs.output_of(str(program), *flags).splitlines()]
        even = {point["tokens"]: point["of_bound"] for point in points if point["law"] == "even"}
        for point in points:
            print(f'{point["type"]:9} {point["law"]:5} {point["tokens"]:4} tokens: {point["touched"]:6.1f} experts, '
                  f'{point["ms"]:8.3f} ms, {point["of_bound"]:.2f} of the bound, '
                  f'{even[point["tokens"]] / point["of_bound"]:.2f} of an even choice\'s time over it')
        runs.save(args, {"points": points}, command=f"build/{program.name} {' '.join(flags)}")
