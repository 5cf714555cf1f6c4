"""A block of experts on the CPU, chosen evenly and by Zipf's law, beside the machine's own bounds.

Runs pagedinfer_routing_bench in N rounds, all types in turn; build it first. The bound is reading the experts that
the tokens touch, or multiplying. For each number of tokens and law the round of the median share counts, since the
machine's speed drifts. Goals: with 1 to 64 tokens at least 0.8 of the bound, by either law; and by Zipf's law at most
1.15 of an even choice's time over the bound. A figure that misses one is marked.
"""
import json
import statistics

import runs

OF_BOUND, OVER_EVEN = 0.8, 1.15


def marked(figure, is_met):
    return f"{figure:.2f}{'' if is_met else ' (missed)'}"


def add_flags(parser):
    runs.add_save(parser)
    parser.add_argument("--threads", type=int, default=2, help="[2]")
    parser.add_argument("--rounds", type=int, default=5, help="an odd number [5]")
    parser.add_argument("--types", nargs="+", default=["bf16", "int8", "int4"], help="[bf16 int8 int4]")


def median_points(rounds):
    """For each number of tokens and law the point of the round with the median share."""
    for points in zip(*rounds):
        middle = statistics.median_low(point["of_bound"] for point in points)
        yield next(point for point in points if point["of_bound"] == middle)


def measure(args):
    program = runs.ROOT / "build" / "pagedinfer_routing_bench"
    flags = {kind: ["--threads", str(args.threads), "--type", kind] for kind in args.types}
    rounds = {kind: [] for kind in args.types}
    for _ in range(args.rounds):
        for kind in args.types:
            output = runs.output_of(str(program), *flags[kind])
            rounds[kind].append([json.loads(line) for line in output.splitlines()])
    for kind in args.types:
        points = list(median_points(rounds[kind]))
        even = {point["tokens"]: point["of_bound"] for point in points if point["law"] == "even"}
        print(f"{kind}, goals: {OF_BOUND} of the bound with 1 to 64 tokens, {OVER_EVEN} of an even choice's time over it")
        for point in points:
            share, over_even = point["of_bound"], even[point["tokens"]] / point["of_bound"]
            share = marked(share, share >= OF_BOUND or point["tokens"] > 64)
            over_even = marked(over_even, over_even <= OVER_EVEN)
            print(f'{point["type"]:9} {point["law"]:5} {point["tokens"]:4} tokens: {point["touched"]:6.1f} experts, '
                  f'{point["ms"]:8.3f} ms, {share} of the bound, '
                  f"{over_even} of an even choice's time over it")
        runs.save(args, {"points": points, "rounds": args.rounds},
                  command=f"build/{program.name} {' '.join(flags[kind])}")
