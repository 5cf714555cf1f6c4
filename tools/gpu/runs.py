"""What engine.py and peers.py share: runs of the program, lines of JSON, time that is left."""
import json
import os
import pathlib
import random
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# To try the scripts without a GPU: the same steps with tiny models, on the CPU or, where the program
# is that of the emulated device, on that.
SMALL = os.environ.get("PAGEDINFER_CHECK_SMALL", "") not in ("", "0")
DEVICE = os.environ.get("PAGEDINFER_CHECK_DEVICE") or ("cpu" if SMALL else "cuda")
SMALL_MODELS = {"llama-3.2-3b-instruct": "story-llama", "qwen3-4b": "story-qwen3",
                "gemma-3-1b-it": "story-gemma3"}
PART_SECONDS = 500
STEP_TOKENS = 8192 if not SMALL else 512
_begin = time.monotonic()


class OutOfTime(Exception):
    """The part has no time left for another run."""


def seconds_left() -> float:
    return PART_SECONDS - (time.monotonic() - _begin)


def report(kind: str, **members) -> None:
    print(json.dumps({"kind": kind, **members}), flush=True)


def report_measure(what: str, measured: float, unit: str, at_least: float | None = None,
                   at_most: float | None = None, **more) -> None:
    """A number beside its goal, if it has one. of_goal is 1 or more where it is reached."""
    of_goal = None
    if at_least:
        of_goal = measured / at_least
    elif at_most and measured > 0:
        of_goal = at_most / measured
    report("measure", what=what, measured=round(measured, 4), unit=unit,
           goal=at_least if at_least is not None else at_most,
           better=None if at_least is at_most else "more" if at_least is not None else "less",
           of_goal=None if of_goal is None else round(of_goal, 3), **more)


def model_of(name: str) -> str:
    return SMALL_MODELS[name] if SMALL else name


def run(program: str, prompts: pathlib.Path, output: pathlib.Path, flags: list[str]) -> dict:
    """Runs `program run`; its summary, to which `wall_s` and `steps_of` (the lines of the trace) are
    added."""
    if seconds_left() < 20:
        raise OutOfTime
    trace = output.with_suffix(".trace")
    command = [program, "run", "--overwrite", "--quiet", "--input", str(prompts), "--output",
               str(output), "--trace", str(trace), "--gpu-cache",
               str(output.parent / "gpu-cache"), *flags]
    begin = time.monotonic()
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds_left())
    except subprocess.TimeoutExpired as error:
        raise OutOfTime from error
    wall = time.monotonic() - begin
    if ended.returncode != 0:
        print(" ".join(command), ended.stderr, sep="\n", flush=True)
        raise RuntimeError(f"code {ended.returncode}: {ended.stderr.strip()[-300:]}")
    summary = json.loads(pathlib.Path(f"{output}.summary.json").read_text())
    if summary["failed"] > 0:
        raise RuntimeError(f"{summary['failed']} requests failed: {summary['failed_by_code']}")
    summary["wall_s"] = wall
    summary["steps_of"] = [json.loads(line) for line in trace.read_text().splitlines()]
    return summary


def random_prompts(count: int, length: int, seed: int = 1) -> list[list[int]]:
    draw = random.Random(seed)
    most = 200 if SMALL else 30000
    return [[draw.randrange(10, most) for _ in range(length)] for _ in range(count)]


def write_prompts(path: pathlib.Path, prompts: list[list[int]]) -> pathlib.Path:
    with path.open("w") as lines:
        for ids in prompts:
            lines.write(json.dumps({"prompt_token_ids": ids}) + "\n")
    return path


def dummy(model: str, max_tokens: int, max_model_len: int, *more: str) -> list[str]:
    """Flags of a run of a model with made-up weights that always generates max_tokens."""
    return ["--device", DEVICE, "--model", model_of(model), "--weights", "dummy", "--dtype",
            "bfloat16", "--ignore-eos", "--max-tokens", str(max_tokens), "--max-model-len",
            str(max_model_len), "--max-step-tokens", str(STEP_TOKENS), *more]
