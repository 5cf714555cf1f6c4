"""Files and datasets on a Ray cluster.

    python3 -m pagedinfer.ray --shards 16 --cpus 8 --memory 20G prompts.jsonl --model DIR --max-tokens 512

completes a file: a task for each shard, on any number of nodes, then a merge. Every node must see
the program, the input, the model and the outputs, which stand beside the input. A task that dies
with its node is started again on another one and goes on where it was; the same command again goes
on with whatever was left undone. Needs `pip install "ray[data]"`. Flags that are not listed here
are those of `pagedinfer run`.
"""
import argparse
import os
import re
import subprocess
import sys
from typing import Any, List, Optional

from .program import ERROR_RECORDS, PagedinferError, binary, flags_of
from .runs import Records, default_output

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def bytes_of(size: str) -> int:
    """20G and 512M in bytes."""
    parts = re.fullmatch(r"(\d+)([KMGT]?)", size)
    if not parts:
        raise argparse.ArgumentTypeError(f"found {size}, expected a number with K, M, G or T, such as 20G")
    return int(parts[1]) * UNITS[parts[2]]


def complete_file(path: str, *, shards: int, cpus: int = 1, memory: Optional[int] = None,
                  address: Optional[str] = None, **settings: Any) -> Records:
    """Completes a file in `shards` tasks of `cpus` cores and `memory` bytes each; returns the merged records."""
    return _complete_file(path, shards, cpus, memory, address, flags_of(settings))


def _complete_file(path: str, shards: int, cpus: int, memory: Optional[int], address: Optional[str],
                   flags: List[str]) -> Records:
    program, path = binary(), os.path.realpath(path)
    merged = default_output(path)
    if any(flag.startswith("--output") or re.match("-o", flag) for flag in flags):
        raise ValueError("--output: the outputs stand beside the input")
    shared = [name for name in (flag.split("=")[0] for flag in flags) if name in ("--errors", "--stats", "--trace")]
    if shared:
        raise ValueError(f"{shared[0]}: all tasks would write this one file; leave it out")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: expected a file")
    if os.path.exists(merged):
        raise FileExistsError(f"{merged}: is there already")
    if not any(flag.startswith("--threads") for flag in flags):
        flags = [*flags, "--threads", str(cpus)]
    import ray

    # Nested, so that Ray sends its code: a node needs the program, and not this module.
    def run_shard(shard: str) -> "tuple[int, str]":
        command = [program, "run", "--input", path, "--shard", shard, "--resume", "--progress", "off", *flags]
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        return ended.returncode, ended.stderr

    if not ray.is_initialized():
        ray.init(address=address)
    task = ray.remote(num_cpus=cpus, memory=memory, max_retries=-1)(run_shard)
    names = [f"{i}/{shards}" for i in range(shards)]
    for name, (code, told) in zip(names, ray.get([task.remote(name) for name in names])):
        if code not in (0, ERROR_RECORDS):
            raise PagedinferError(f"shard {name}: {told.strip()}", code)
    outputs = [default_output(path, name) for name in names]
    ended = subprocess.run([program, "merge", "--output", merged, *outputs], stderr=subprocess.PIPE, text=True)
    if ended.returncode:
        raise PagedinferError(ended.stderr.strip(), ended.returncode)
    return Records(merged)


def complete_dataset(dataset: Any, *, prompt: str = "prompt", cpus: int = 1, memory: Optional[int] = None,
                     batch_size: int = 1024, **settings: Any) -> Any:
    """A dataset of Ray with the columns that run_table adds. Each node needs this package.

    Without a column `id` it takes temperature=0 only: random numbers follow a row's id, else its
    place in its block, and Ray cuts the blocks. A model may sample unless it is told not to."""
    names = dataset.schema().names
    sampling = "temperature" in names or settings.get("temperature") != 0
    if sampling and "id" not in names:
        raise ValueError("id: expected a column of this name, for random numbers follow it; or temperature=0")

    def complete(table: Any) -> Any:
        from pagedinfer import run_table
        if sampling and table["id"].null_count:
            raise ValueError("id: found null, expected an id in each row, for random numbers follow it")
        return run_table(table, prompt=prompt, **settings)

    settings.setdefault("threads", cpus)
    return dataset.map_batches(complete, batch_format="pyarrow", batch_size=batch_size, num_cpus=cpus, memory=memory)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a file of prompts")
    parser.add_argument("--shards", type=int, required=True, help="how many tasks share the file")
    parser.add_argument("--cpus", type=int, default=1, help="cores of each task [1]")
    parser.add_argument("--memory", type=bytes_of, help="memory of each task, such as 20G [not asked for]")
    parser.add_argument("--address", help="of the cluster [the one at hand, else a local one]")
    args, flags = parser.parse_known_args()
    try:
        _complete_file(args.input, args.shards, args.cpus, args.memory, args.address, flags)
    except ModuleNotFoundError:
        sys.exit('Ray is not there: pip install "ray[data]"')
    except (ValueError, OSError, PagedinferError) as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
