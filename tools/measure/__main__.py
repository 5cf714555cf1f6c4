"""Measures the program on this machine: python3 tools/measure NAME [FLAG ...]

Each NAME is a file of this folder, whose first lines say what it measures; NAME --help prints them. It prints
what it finds. With --save it also appends lines to results/NAME.jsonl, each with the commit, the machine and
the command. Build the program first, and let nothing else compute meanwhile.
"""
import argparse
import importlib
import pathlib
import sys

SHARED = {"__main__", "calibrated_models", "rounded_models", "runs"}


def main():
    folder = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(prog="measure", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name in sorted({path.stem for path in folder.glob("*.py")} - SHARED):
        module = importlib.import_module(name)
        command = commands.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_flags(command)
        command.set_defaults(measure=module.measure)
    args = parser.parse_args()
    return args.measure(args)


if __name__ == "__main__":
    sys.exit(main())
