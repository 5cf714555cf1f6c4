#!/usr/bin/env python3
"""Completes a file on a Ray cluster: a task for each shard, on any number of nodes, then a merge.

    python3 scripts/ray_data.py --shards 16 --cpus 8 prompts.jsonl --model DIR --max-tokens 512

Every node must see the input, the model and the outputs, which stand beside the input. A task that
dies with its node is started again on another one and goes on where it was; the same command again
goes on with whatever was left undone. Needs `pip install "ray[data]"`. Flags that are not listed
here are those of `pagedinfer run`.
"""
import argparse
import pathlib
import subprocess
import sys

ENDED = (0, 2)  # exit codes: with 2 there are error records, which are records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=pathlib.Path, help="a file of prompts")
    parser.add_argument("--shards", type=int, required=True, help="how many tasks share the file")
    parser.add_argument("--cpus", type=int, default=1, help="cores of each task [1]")
    parser.add_argument("--program", type=pathlib.Path, help="[build/pagedinfer]",
                        default=pathlib.Path(__file__).parent.parent / "build" / "pagedinfer")
    parser.add_argument("--address", help="of the cluster [the one at hand, else a local one]")
    args, flags = parser.parse_known_args()
    try:
        import ray  # only now: --help needs none
    except ImportError:
        sys.exit('ray_data.py: Ray is not there: pip install "ray[data]"')
    program, path = str(args.program.resolve()), args.input.resolve()
    stem = str(path).removesuffix(".gz").removesuffix(".jsonl")
    merged = pathlib.Path(f"{stem}.completions.jsonl")
    if any(flag.startswith("--output") for flag in flags):
        sys.exit("--output: the outputs stand beside the input")
    if not path.is_file():
        sys.exit(f"{path}: expected a file")
    if merged.exists():
        sys.exit(f"{merged}: is there already")

    def run_shard(row: dict) -> dict:
        shard = f"{row['id']}/{args.shards}"
        command = [program, "run", "--input", str(path), "--shard", shard, "--resume",
                   "--threads", str(args.cpus), "--progress", "off", *flags]
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if ended.returncode not in ENDED:
            raise RuntimeError(f"shard {shard} ended with {ended.returncode}: {ended.stderr}")
        return {"shard": shard}

    ray.init(address=args.address)
    ray.data.DataContext.get_current().enable_progress_bars = False
    shards = ray.data.range(args.shards, override_num_blocks=args.shards)
    shards.map(run_shard, num_cpus=args.cpus, max_retries=-1).materialize()
    outputs = [f"{stem}.{i}-of-{args.shards}.completions.jsonl" for i in range(args.shards)]
    return subprocess.run([program, "merge", "--output", str(merged), *outputs]).returncode


if __name__ == "__main__":
    sys.exit(main())
