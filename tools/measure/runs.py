"""What the measurements share: runs of the program, files of lines, and lines of results/."""
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ROOT / "datasets" / "prompts.jsonl"
MODELS = ["story-llama", "story-qwen3", "story-gemma3"]


def add_program(parser):
    parser.add_argument("--program", default=ROOT / "build" / "pagedinfer", type=pathlib.Path,
                        help="[build/pagedinfer]")


def add_save(parser):
    parser.add_argument("--save", action="store_true", help="append to results/NAME.jsonl")


def add_repeats(parser, repeats=5):
    parser.add_argument("--repeats", type=int, default=repeats, help=f"runs of each kind [{repeats}]")


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def machine():
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", "").split())
    sets = [s for s in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if s in flags]
    return {"processor": fields.get("model name"), "family": fields.get("cpu family"),
            "model": fields.get("model"), "cores": os.cpu_count(), "sets": sets}


def command_line():
    """The command that runs now. Absolute paths, which mean nothing elsewhere, are cut to their names."""
    words = [pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return shlex.join(["python3", "tools/measure", *words])


def save(args, result, command=None):
    """Appends a line to the results of args.name, if --save was given."""
    if not args.save:
        return
    changes = output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    line = {"commit": output_of("git", "rev-parse", "--short", "HEAD"), "clean": changes == "",
            "machine": machine(), "command": command or command_line(), **result}
    append_lines(ROOT / "results" / f"{args.name}.jsonl", [line])


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def append_lines(path, lines, mode="a"):
    with open(path, mode, encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


def write_lines(path, lines):
    append_lines(path, lines, "w")


def run(program, prompts, folder, *flags, accepted=(0,)):
    """Runs once, to end with one of the accepted exit codes; returns the summary and the peak
    resident memory in KiB. The records are in folder/run.jsonl then."""
    command = [program, "run", "--quiet", "--overwrite", "--input", str(prompts),
               "--output", str(pathlib.Path(folder) / "run.jsonl"), *flags]
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in accepted:
        raise SystemExit(f"{shlex.join(map(str, command))}: exit code {os.waitstatus_to_exitcode(status)}")
    summary = json.loads((pathlib.Path(folder) / "run.summary.json").read_text(encoding="utf-8"))
    return summary, usage.ru_maxrss


def run_traced(program, prompts, folder, *flags):
    """As run(), and the lines of --trace too: summary, peak, steps."""
    trace = pathlib.Path(folder) / "trace.jsonl"
    return *run(program, prompts, folder, *flags, "--trace", str(trace)), read_lines(trace)


def read_into_page_cache(path):
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def medians(found):
    """The median of each figure over runs, which have the same figures."""
    return {name: round(statistics.median(run[name] for run in found), 4) for name in found[0]}


def common_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def same_tokens(expected, found):
    """Of greedy completions: the share of expected tokens before the first one that differs, how many
    prompts have no different token, and how many prompts there are."""
    pairs = [(a["token_ids"], b["token_ids"]) for a, b in zip(expected, found, strict=True)]
    return {"same_tokens": sum(common_prefix(a, b) for a, b in pairs) / sum(len(a) for a, _ in pairs),
            "same_prompts": sum(a == b for a, b in pairs), "prompts": len(pairs)}


def right_answers(prompts, records):
    return sum("answer" in prompt and found["text"].strip() == prompt["answer"]
               for prompt, found in zip(prompts, records, strict=True))


def without_answer(prompt):
    """The line that is run: the answer is for judging it."""
    return {key: value for key, value in prompt.items() if key != "answer"}
