"""This CPU with OpenVINO GenAI, llama.cpp and transformers in turn.

Sets the others up in DIR (12 GB, once): a virtual environment, llama.cpp built from its source, a
checkpoint with the shapes of Llama-3.2-1B and random weights, and the forms of it that each engine
reads. With --experts the shapes are those of Qwen3-30B-A3B, cut to 4 layers and 32,000 ids, in
DIR/experts (8 GB), and llama.cpp is the only other. All complete the same prompts greedily, one engine after the other, in N rounds:

    decode    B prompts of 16 ids at once: tokens per second of the median step that computes one
              token for each
    prefill   8 prompts of 64 ids at once: prompt tokens per second until all have a first token. Of
              this program, the median of the second to fourth step that reads so many: it is started
              anew, and the others have run before
    answers   of the first 8 prompts, those whose 17 tokens are not the same with every B
    of bound  share of the hardware: the time that this machine needs at least, to read or to multiply,
              over the time taken, by one run of pagedinfer with --profile, which measures both

Prints a table of medians. A peer that crashes is not asked again; the table has a dash for what it did
not answer, and a note under it. A ratio is the median of the ratios of each round, whose measurements
follow each other, for a machine's speed drifts.
REQUIRES: the packages of pip can be fetched.
"""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import runs

CONFIGS = runs.ROOT / "datasets" / "configs"
WORKERS = runs.ROOT / "tools" / "measure" / "peers"
LLAMA_CPP = ["llama-cpp-python==0.3.36", "gguf==0.19.0"]
PACKAGES = ["openvino-genai==2026.4.1.0", "optimum-intel[openvino]==2.2.0", *LLAMA_CPP]
PROMPT_TOKENS, TOKENS, COMPARED = 16, 17, 8
PREFILL_PROMPTS, PREFILL_TOKENS = 8, 64
PREFILL_STEPS = 4  # of this program, whose first step also touches memory for the first time
MAX_POSITIONS = 64 * (PROMPT_TOKENS + TOKENS + 1)
MAX_ID = 32000
# What --experts keeps of Qwen3-30B-A3B.
CUT = {"num_hidden_layers": 4, "vocab_size": MAX_ID, "bos_token_id": 1, "eos_token_id": 2}
WITH_EXPERTS = ["int8", "q8_0", "llama.cpp q8_0"]

# Name: the bits of its weights, its model in DIR, and the flags of the program, which is run anew for
# each measurement; of a peer, its worker and its model. In 4 bits the head has 8, or what GGUF's own
# recipe gives it.
OURS = {"bfloat16": (16, "checkpoint", []),
        "int8": (8, "checkpoint", ["--quantize", "int8"]),
        "int4": (4, "codes", ["--quantize", "int4"]),
        "q8_0": (8, "q8_0.gguf", []), "q4_0": (4, "q4_0.gguf", []),
        "q4_k_m": (4, "q4_k_m.gguf", [])}
PEERS = {"OpenVINO fp16": (16, "openvino_peer.py", "openvino-fp16"),
         "OpenVINO int8": (8, "openvino_peer.py", "openvino-int8"),
         "OpenVINO int4": (4, "openvino_peer.py", "openvino-int4"),
         "llama.cpp f16": (16, "llama_cpp_peer.py", "f16.gguf"),
         "llama.cpp bf16": (16, "llama_cpp_peer.py", "bf16.gguf"),
         "llama.cpp q8_0": (8, "llama_cpp_peer.py", "q8_0.gguf"),
         "llama.cpp q4_0": (4, "llama_cpp_peer.py", "q4_0.gguf"),
         "llama.cpp q4_k_m": (4, "llama_cpp_peer.py", "q4_k_m.gguf"),
         "transformers bfloat16": (16, "transformers_peer.py", "checkpoint")}


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("peers"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batches", help="[1,8,16,24,32,48,64; with --experts 1,8,64]")
    parser.add_argument("--engines", help=f"[{','.join([*OURS, *PEERS])}; with --experts {','.join(WITH_EXPERTS)}]")
    parser.add_argument("--experts", action="store_true", help="the shapes of a mixture of experts")


def call(*command, **more):
    print(" ".join(map(str, command)), file=sys.stderr)
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, **more)


def make(path, *command):
    """Makes the file or folder by a command whose last argument is its path, unless it is there."""
    part = path.with_name(path.name + ".part")
    if not path.exists():
        call(*command, part)
        part.rename(path)


def set_up_base(folder, config, packages):
    """The virtual environment and the checkpoint in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    venv, checkpoint = folder / "venv", folder / "checkpoint"
    if not (venv / "complete").exists():
        call(sys.executable, "-m", "venv", venv)
        call(venv / "bin" / "pip", "install", "--quiet", *packages)
        (venv / "complete").touch()
    make(checkpoint, sys.executable, runs.ROOT / "tools/goldens/make_dummy_checkpoint.py", "--config",
         config, "--output")
    return venv, checkpoint


def set_up_experts(folder):
    """As set_up(), for --experts."""
    config = json.loads((CONFIGS / "qwen3-30b-a3b" / "config.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        (pathlib.Path(name) / "config.json").write_text(json.dumps(config | CUT), encoding="utf-8")
        venv, checkpoint = set_up_base(folder, name, LLAMA_CPP)
    make(folder / "q8_0.gguf", venv / "bin" / "python", WORKERS / "make_gguf.py", checkpoint, "q8_0")


def set_up(folder):
    """Makes what is missing in `folder`; each part is there as a whole or not at all."""
    venv, checkpoint = set_up_base(folder, CONFIGS / "llama-3.2-1b-instruct", PACKAGES)
    python = venv / "bin" / "python"
    make(folder / "codes", python, WORKERS / "make_codes.py", checkpoint)
    for name in ("f16", "bf16", "q8_0"):
        make(folder / f"{name}.gguf", python, WORKERS / "make_gguf.py", checkpoint, name)
    for name in ("q4_0", "q4_k_m"):
        make(folder / f"{name}.gguf", python, WORKERS / "quantize_gguf.py", folder / "f16.gguf", name)
    for name, more in (("fp16", []), ("int8", []),
                       ("int4", ["--sym", "--group-size", 128, "--ratio", "1.0"])):
        make(folder / f"openvino-{name}", venv / "bin" / "optimum-cli", "export", "openvino", "--model",
             checkpoint, "--task", "text-generation-with-past", "--weight-format", name, *more)


class PeerCrashed(Exception):
    pass


class Peer:
    """A worker of peers/."""

    def __init__(self, name, folder, threads):
        self.bits, script, model = PEERS[name]
        self.log = open(folder / f"{name}.log", "w", encoding="utf-8")
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.worker = subprocess.Popen(
            [folder / "venv" / "bin" / "python", WORKERS / script, folder / model, str(threads),
             str(MAX_POSITIONS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        line = self.worker.stdout.readline()
        self.about = json.loads(line)["name"] if line else name

    def read(self):
        line = self.worker.stdout.readline()
        if not line:
            raise PeerCrashed(f"its worker ended with {self.worker.wait()}; its log is {pathlib.Path(self.log.name).name}")
        return json.loads(line)

    def complete(self, prompts, tokens):
        try:
            print(json.dumps({"prompts": prompts, "tokens": tokens}), file=self.worker.stdin, flush=True)
        except BrokenPipeError:
            pass  # read() says how it ended
        return self.read()


class Program:
    """pagedinfer itself, started anew for each measurement, with packed weights as in long runs."""

    def __init__(self, name, program, folder, threads):
        self.bits, model, flags = OURS[name]
        self.program = program
        self.flags = ["--model", str(folder / model), "--threads", str(threads), "--ignore-eos",
                      "--token-ids", "--kv-memory", "256MiB", "--max-model-len", "1024",
                      "--pack-weights", "on", *flags]
        self.about = "pagedinfer " + runs.output_of("git", "rev-parse", "--short", "HEAD")

    def complete(self, prompts, tokens, *more):
        """As a worker answers, with the profile if `more` asks for it. For a prefill, others of such
        prompts are read in the steps before, and `first_s` is the median of all steps but the first."""
        given, is_prefill = prompts, tokens == 1
        if is_prefill:
            given = [ids[n:] + ids[:n] for n in reversed(range(PREFILL_STEPS)) for ids in prompts]
            more = [*more, "--max-step-tokens", str(sum(map(len, prompts)))]
        with tempfile.TemporaryDirectory() as name:
            files = pathlib.Path(name)
            runs.write_lines(files / "prompts", [{"prompt_token_ids": ids, "max_tokens": tokens} for ids in given])
            summary, _, steps = runs.run_traced(self.program, files / "prompts", name, *self.flags, *more)
            records = runs.read_lines(files / "run.jsonl")
        last = max(i for i, step in enumerate(steps) if step["prefill_tokens"] > 0)
        times = [step["end_s"] - step["begin_s"] for step in steps]
        return {"first_s": statistics.median(times[1:last + 1]) if is_prefill else None,
                "steps_s": times[last + 1:],
                "tokens": [found["token_ids"] for found in records],
                "profile": summary.get("profile")}

    def of_bound(self, prompts, tokens):
        """The shares of all operations and of those of experts; None: there are none, or a bound is not known."""
        ops = [op for op in self.complete(prompts, tokens, "--profile")["profile"]["ops"]
               if op["decode_only"] == (tokens > 1)]

        def share(of):
            if not of or any(op["bound_s"] is None for op in of):
                return None
            return sum(op["bound_s"] for op in of) / sum(op["time_s"] for op in of)
        return share(ops), share([op for op in ops if op["op"].startswith("experts")])


def measure_in_turn(engines, batches, rounds):
    """Returns, by engine, the rates of each measurement, the number of answers that change, where known
    the shares of the bound, and why an engine crashed. It has no rate then, nor later ones, and no number
    of answers."""
    draw = random.Random(1)
    ids = lambda length: [draw.randrange(1000, MAX_ID) for _ in range(length)]
    work = [("prefill", [ids(PREFILL_TOKENS) for _ in range(PREFILL_PROMPTS)], 1)]
    prompts = [ids(PROMPT_TOKENS) for _ in range(max(batches))]
    work += [(f"decode {batch}", prompts[:batch], TOKENS) for batch in batches]
    rates = {name: {} for name in engines}
    answers = {name: [set() for _ in range(COMPARED)] for name in engines}
    shares = {}
    crashed = {}
    for what, given, tokens in work:
        for turn in range(rounds):
            for name, engine in engines.items():
                if name in crashed:
                    continue
                try:
                    done = engine.complete(given, tokens)
                except PeerCrashed as why:
                    crashed[name] = f"{name} crashed at {what}, round {turn + 1}: {why}"
                    rates[name].pop(what, None)
                    continue
                if tokens == 1:
                    rate = sum(map(len, given)) / done["first_s"]
                else:
                    rate = len(given) / statistics.median(done["steps_s"])
                    for seen, found in zip(answers[name], done["tokens"]):
                        seen.add(tuple(found))
                rates[name].setdefault(what, []).append(rate)
                print(f"{what}, round {turn + 1}, {name}: {rate:.1f} tokens/s", file=sys.stderr)
                time.sleep(0.5)
        for name in filter(OURS.get, engines):
            for of, share in zip((name, f"{name}, experts"), engines[name].of_bound(given, tokens)):
                if share is not None:
                    shares.setdefault(of, {})[what] = share
    changed = {name: sum(len(seen) > 1 for seen in of) for name, of in answers.items() if name not in crashed}
    return rates, changed, shares, crashed


def medians(found):
    return {what: statistics.median(of) for what, of in found.items()}


def over_best_other(name, engines, rates):
    """The median ratios to the fastest of the others whose weights have as many bits, or None."""
    others = [other for other in engines
              if other in PEERS and engines[other].bits == engines[name].bits]
    if name not in OURS or not others:
        return None

    def best(what, turn):
        return max((rates[other][what][turn] for other in others if what in rates[other]), default=None)

    return medians({what: [ours / best(what, turn) for turn, ours in enumerate(of)]
                    for what, of in rates[name].items() if best(what, 0)})


def print_table(engines, rates, changed, shares, crashed):
    columns = max(map(list, rates.values()), key=len)

    def row(name, values, digits, last=""):
        cells = [f"{values[what]:.{digits}f}" if what in values else "-" for what in columns]
        print(f"| {name} |", " | ".join(cells), f"| {last} |")

    print("| tokens/s |", " | ".join(columns), "| answers that change |")
    print("|---" * (len(columns) + 2) + "|")
    for name in engines:
        row(name, medians(rates[name]), 1, f"{changed[name]} of {COMPARED}" if name in changed else "-")
    for name, of in shares.items():
        row(f"{name}, of the bound", of, 2)
    for name in engines:
        if ratios := over_best_other(name, engines, rates):
            row(f"{name} over the best other with {engines[name].bits} bits", ratios, 2)
    for why in crashed.values():
        print(f"\n{why}.")


def measure(args):
    known = WITH_EXPERTS if args.experts else [*OURS, *PEERS]
    names = args.engines.split(",") if args.engines else known
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"{unknown[0]}: expected one of {', '.join(known)}")
    batches = args.batches or ("1,8,64" if args.experts else "1,8,16,24,32,48,64")
    batches = [int(batch) for batch in batches.split(",")]
    folder = args.dir.resolve()
    if args.experts:
        folder /= "experts"
        set_up_experts(folder)
    else:
        set_up(folder)
    engines = {name: Program(name, args.program, folder, args.threads) if name in OURS
               else Peer(name, folder, args.threads) for name in names}
    rates, changed, shares, crashed = measure_in_turn(engines, batches, args.rounds)
    print_table(engines, rates, changed, shares, crashed)
    for name in names:
        runs.save(args, {"engine": name, "about": engines[name].about, "threads": args.threads,
                         "rounds": args.rounds, "tokens_per_s": medians(rates[name]),
                         "over_best_other": over_best_other(name, engines, rates),
                         "answers_changed": changed.get(name), "answers_compared": COMPARED,
                         "of_bound": shares.get(name), "experts_of_bound": shares.get(f"{name}, experts"),
                         "crashed": crashed.get(name)})
