"""What sharing of the KV cache is good for, and what it costs.

    head       one head of 1,024 tokens before short questions, the prefix cache on against off
    nothing    prompts that share nothing, on against off, with the 95 % confidence interval of the
               cost; with a cache that is soon full, and with the default one
    samples    n = 8 against eight lines, and against eight lines without sharing
    beams      cache of 2, 4, 8 and 16 beams over the cache of one sequence, prompt 4 : output 1; and
               the time with --kv contiguous over the time with paged
    questions  --file gsm8k_test.jsonl: questions after one head of eight solved ones, on and off: the
               same bytes, and the seconds of both

Runs of the kinds that are compared take turns; a ratio is the median of the ratios of pairs. Records
of both kinds are compared.
"""
import json
import math
import pathlib
import random
import statistics
import tempfile

import runs

ON, OFF = ("--prefix-cache", "on"), ("--prefix-cache", "off")


def add_flags(parser):
    parser.add_argument("what", choices=["head", "nothing", "samples", "beams", "questions"])
    runs.add_program(parser)
    runs.add_save(parser)
    runs.add_repeats(parser)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--file", help="of questions: one object with question and answer in each line")
    parser.add_argument("--model", help="of questions; by default the bundled one")


def figures(summary):
    seconds = summary["duration"]
    return {"seconds": round(seconds, 4),
            "device_share": round(summary["time_device_s"] / seconds, 3),
            "prefill_tokens": summary["prefill_tokens"], "decode_tokens": summary["decode_tokens"],
            "cached_tokens": summary["cached_tokens"], "evicted_blocks": summary["evicted_blocks"],
            "kv_positions_leased_peak": summary["kv_positions_leased_peak"],
            "kv_bytes_saved_peak": summary["kv_bytes_saved_peak"]}


def choices_of(path):
    """The texts of the records, by prompt, whether as lines or as choices of one line."""
    return [choice["text"] for line in path.read_text(encoding="utf-8").splitlines()
            for choice in json.loads(line).get("choices", [json.loads(line)])]


def student_t(degrees):
    """The 97.5 % quantile of Student's distribution."""
    table = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)
    return table[min(degrees, len(table)) - 1]


def compare(args, name, kinds, flags=(), same=lambda path: path.read_bytes()):
    """kinds: name to (prompts, flags); the first is compared with each of the others."""
    found, outputs = {kind: [] for kind in kinds}, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for kind, (lines, _) in kinds.items():
            runs.write_lines(folder / f"{kind}.jsonl", lines)
        for repeat in range(args.repeats + 1):  # the first round warms up
            for kind, (_, more) in kinds.items():
                summary, _ = runs.run(args.program, folder / f"{kind}.jsonl", folder, *flags, *more)
                outputs[kind] = same(folder / "run.jsonl")
                if repeat > 0:
                    found[kind].append(summary)
    first, *others = kinds
    line = {"what": name, "repeats": args.repeats,
            "flags": list(flags), "model": found[first][0]["model"].rpartition("/")[2]}
    for kind, done in found.items():
        line[kind] = figures(sorted(done, key=lambda s: s["duration"])[len(done) // 2])
    for other in others:
        if outputs[other] != outputs[first]:
            raise SystemExit(f"{name}: {first} and {other} gave different completions")
        ratios = [b["duration"] / a["duration"] for a, b in zip(found[first], found[other])]
        logs = [math.log(ratio) for ratio in ratios]
        error = student_t(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
        mean = statistics.mean(logs)
        line[f"{other}_over_{first}"] = round(statistics.median(ratios), 4)
        line[f"{other}_over_{first}_mean_95"] = [round(math.exp(mean + d), 4) for d in (-error, 0, error)]
    print(json.dumps({key: value for key, value in line.items() if key != "flags"}, indent=1))
    runs.save(args, line)


def tokens(noise, count):
    return [noise.randrange(10, 500) for _ in range(count)]


def head(args):
    noise = random.Random(1)
    shared = tokens(noise, 1024)
    lines = [{"id": i, "prompt_token_ids": shared + tokens(noise, 16), "max_tokens": 8,
              "ignore_eos": True} for i in range(args.requests)]
    compare(args, "head of 1,024 tokens, 16 of its own, 8 drawn", {"on": (lines, ON), "off": (lines, OFF)})


def nothing(args):
    noise = random.Random(2)
    lines = [{"id": i, "prompt_token_ids": tokens(noise, noise.randrange(64, 257)), "max_tokens": 32,
              "ignore_eos": True} for i in range(args.requests)]
    kinds = {"off": (lines, OFF), "on": (lines, ON)}
    compare(args, "nothing shared, a cache that is soon full", kinds,
            flags=["--max-batch-size", "64", "--num-blocks", "2048"])
    compare(args, "nothing shared, a cache that is never full: its memory is touched for the first time",
            kinds, flags=["--max-batch-size", "64"])


def samples(args):
    noise = random.Random(3)
    prompts = [tokens(noise, 256) for _ in range(max(1, args.requests // 8))]
    settings = {"temperature": 1.0, "max_tokens": 32, "ignore_eos": True}
    together = [{"id": i, "prompt_token_ids": p, "n": 8, **settings} for i, p in enumerate(prompts)]
    apart = [{"id": f"{i}-{k}", "prompt_token_ids": p, **settings}
             for i, p in enumerate(prompts) for k in range(8)]
    compare(args, "n = 8 against eight lines, prompts of 256, 32 drawn",
            {"together": (together, ()), "lines": (apart, ON), "lines_off": (apart, OFF)},
            same=lambda path: len(choices_of(path)))  # other random numbers: only as many


def beams(args):
    noise = random.Random(4)
    prompts = [tokens(noise, 512) for _ in range(4)]
    held = {}
    for width in (1, 2, 4, 8, 16):
        beam = {"beam_width": width} if width > 1 else {}
        lines = [{"id": i, "prompt_token_ids": p, "max_tokens": 128, "ignore_eos": True, **beam}
                 for i, p in enumerate(prompts)]
        flags = ["--max-batch-size", str(width), "--max-model-len", "1024"]
        found = {"paged": [], "contiguous": []}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            runs.write_lines(folder / "lines.jsonl", lines)
            outputs = {}
            for _ in range(args.repeats):
                for kv, done in found.items():
                    done.append(runs.run(args.program, folder / "lines.jsonl", folder, *flags, "--kv", kv,
                                    "--num-blocks", "1024")[0])
                    outputs[kv] = (folder / "run.jsonl").read_bytes()
        if outputs["paged"] != outputs["contiguous"]:
            raise SystemExit("beams: paged and contiguous gave different completions")
        held[width] = found["paged"][0]["kv_positions_leased_peak"]
        ratios = [b["duration"] / a["duration"] for a, b in zip(found["paged"], found["contiguous"])]
        line = {"what": "beams, prompts of 512, 128 drawn, one search at a time", "beam_width": width,
                "positions_leased_peak": held[width],
                "over_one_sequence": round(held[width] / held[1], 3),
                "contiguous_positions_leased_peak":
                    found["contiguous"][0]["kv_positions_leased_peak"],
                "contiguous_over_paged_seconds": round(statistics.median(ratios), 3),
                "seconds": round(statistics.median(s["duration"] for s in found["paged"]), 4)}
        print(json.dumps(line))
        runs.save(args, line)


def questions(args):
    pairs = runs.read_lines(args.file)
    shots = "".join(f"Question: {p['question']}\nAnswer: {p['answer']}\n\n" for p in pairs[:8])
    asked = [{"id": i, "prompt": f"{shots}Question: {p['question']}\nAnswer:", "max_tokens": 32}
             for i, p in enumerate(pairs[8:8 + args.requests])]
    compare(args, "eight solved questions before each of the others", {"on": (asked, ON), "off": (asked, OFF)},
            flags=["--model", args.model] if args.model else [])


def measure(args):
    {"head": head, "nothing": nothing, "samples": samples, "beams": beams, "questions": questions}[args.what](args)
