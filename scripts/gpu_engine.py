#!/usr/bin/env python3
"""Whole runs on a GPU: gpu_engine.py PROGRAM. With --deterministic every configuration gives the
same bytes; float32 agrees with the CPU; models of true shapes with made-up weights are timed.
Prints a line of JSON each, and exits with 1 if a run failed or bytes differ."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGURATIONS = [
    [],
    ["--max-batch-size", "3"],
    ["--prefill-chunk-size", "17", "--max-step-tokens", "64", "--max-batch-size", "33"],
    ["--chunked-prefill", "off"],
    ["--block-size", "5"],
    ["--num-blocks", "40"],
    ["--kv", "contiguous"],
    ["--batching", "static", "--max-batch-size", "16"],
]


def report(what: str, result: str, **more) -> None:
    print(json.dumps({"kind": "engine", "what": what, "result": result, **more}), flush=True)


def run(program: str, prompts: pathlib.Path, output: pathlib.Path, flags: list[str]) -> dict:
    """The summary of a run."""
    stats = output.with_suffix(".stats")
    command = [program, "run", "--overwrite", "--quiet", "--input", str(prompts), "--output",
               str(output), "--stats", str(stats), *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: code {ended.returncode}: {ended.stderr.strip()}")
    summaries = [json.loads(line) for line in stats.read_text().splitlines()]
    return [s for s in summaries if s["kind"] == "summary"][-1]


def equal_bytes(program: str, work: pathlib.Path) -> bool:
    prompts = ROOT / "datasets/prompts.jsonl"
    same = True
    for dtype in ("bfloat16", "float32", "float16"):
        expected = None
        for number, flags in enumerate(CONFIGURATIONS):
            output = work / f"{dtype}-{number}.jsonl"
            run(program, prompts, output,
                ["--device", "cuda", "--deterministic", "--dtype", dtype, "--token-ids",
                 "--max-model-len", "512", *flags])
            found = output.read_bytes()
            expected = found if expected is None else expected
            equal = found == expected
            same &= equal
            report(f"{dtype} {' '.join(flags) or 'defaults'}", "equal" if equal else "DIFFERENT")
    return same


def agreement(program: str, work: pathlib.Path) -> None:
    prompts = ROOT / "datasets/prompts.jsonl"
    for dtype in ("float32", "bfloat16"):
        for device in ("cpu", "cuda"):
            run(program, prompts, work / f"{device}.jsonl",
                ["--device", device, "--dtype", dtype, "--token-ids", "--temperature", "0"])
        lines = [(work / f"{device}.jsonl").read_text().splitlines() for device in ("cpu", "cuda")]
        same = sum(a == b for a, b in zip(*lines))
        report(f"{dtype} greedy, lines equal to the CPU's", f"{same} of {len(lines[0])}")


def throughput(program: str, work: pathlib.Path) -> None:
    draw = random.Random(1)
    for model in ("gemma-3-1b-it", "llama-3.2-3b-instruct", "qwen3-4b"):
        prompts = work / "ids.jsonl"
        with prompts.open("w") as lines:
            for _ in range(256):
                ids = [draw.randrange(1000, 30000) for _ in range(draw.randrange(64, 512))]
                lines.write(json.dumps({"prompt_token_ids": ids}) + "\n")
        for flags in ([], ["--deterministic"]):
            begin = time.monotonic()
            summary = run(program, prompts, work / "out.jsonl",
                          ["--device", "cuda", "--model", model, "--weights", "dummy", "--ignore-eos",
                           "--max-tokens", "128", "--max-model-len", "2048", *flags])
            report(f"{model} 256 requests {' '.join(flags)}".strip(),
                   f"{summary['output_throughput']:.0f} tokens/s", summary=summary,
                   seconds=round(time.monotonic() - begin, 1))


def main() -> int:
    program = sys.argv[1]
    code = 0
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        for part in (equal_bytes, agreement, throughput):
            try:
                if part(program, work) is False:
                    code = 1
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                report(part.__name__, f"FAILED: {error}")
                code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
