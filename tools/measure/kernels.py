"""Matrix products and attention on the CPU, beside the machine's own bounds.

Runs pagedinfer_matmul_bench and pagedinfer_ops_bench; build both first.
"""
import json

import runs


def add_flags(parser):
    runs.add_save(parser)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])


def measure(args):
    for count in args.threads:
        matmul = ["--threads", str(count), "--json"]
        for name, flags in (("matmul", matmul), ("matmul", [*matmul, "--type", "int8"]),
                            ("ops", [str(count)])):
            program = runs.ROOT / "build" / f"pagedinfer_{name}_bench"
            lines = runs.output_of(str(program), *flags).splitlines()
            print("\n".join(lines))
            points = [json.loads(line) if line.startswith("{") else line for line in lines]
            runs.save(args, {"points": points}, command=f"build/{program.name} {' '.join(flags)}")
