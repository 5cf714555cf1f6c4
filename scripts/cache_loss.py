#!/usr/bin/env python3
"""Measures what a cache in fewer bits changes, with the bundled models and prompts.

    scripts/cache_loss.py [--program build/pagedinfer] [--model NAME ...] [--save]

All prompts are completed greedily with each type of the cache, and compared with products and cache
in float32:

    answers      questions whose completion is the expected answer
    tokens       share of the float32 run's tokens before the first one that differs
    prompts      prompts whose completions have no different token
    log p        of the prompts' own tokens, which are the same in all runs: its mean, and how far
                 it is from the float32 run's, root mean square and largest

Prints a table; --save appends to results/cache_loss.jsonl.
"""
import argparse
import json
import math
import pathlib
import tempfile

from benchmark import ROOT, record, run

PROMPTS = ROOT / "datasets" / "prompts.jsonl"
MODELS = ["story-llama", "story-qwen3", "story-gemma3"]
KINDS = {  # products, cache: the flags; the first is what the others are compared with
    "float32, float32": ["--dtype", "float32"],
    "float32, float16": ["--dtype", "float32", "--kv-dtype", "float16"],
    "float32, int8": ["--dtype", "float32", "--kv-dtype", "int8"],
    "bfloat16, bfloat16": ["--dtype", "bfloat16"],
    "bfloat16, int8": ["--dtype", "bfloat16", "--kv-dtype", "int8"],
}


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def with_log_probs(prompts, path):
    with open(path, "w", encoding="utf-8") as out:
        for prompt in prompts:
            asked = {key: value for key, value in prompt.items() if key != "answer"}
            out.write(json.dumps({**asked, "prompt_logprobs": 0}) + "\n")


def common_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def log_probs(records):
    # The first token of a prompt has none.
    return [p for record_ in records for p in record_["prompt_logprobs"]["token_logprobs"]
            if p is not None]


def compare(prompts, expected, found):
    right = sum("answer" in prompt and record_["text"].strip() == prompt["answer"]
                for prompt, record_ in zip(prompts, found))
    pairs = [(a["token_ids"], b["token_ids"]) for a, b in zip(expected, found)]
    same = sum(common_prefix(a, b) for a, b in pairs)
    exact, ours = log_probs(expected), log_probs(found)
    distances = [abs(a - b) for a, b in zip(exact, ours, strict=True)]
    return {"right_answers": right,
            "questions": sum("answer" in prompt for prompt in prompts),
            "same_tokens": same / sum(len(a) for a, _ in pairs),
            "same_prompts": sum(a == b for a, b in pairs),
            "prompts": len(prompts),
            "log_prob_mean": sum(ours) / len(ours),
            "log_prob_rms": math.sqrt(sum(d * d for d in distances) / len(distances)),
            "log_prob_largest": max(distances)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "pagedinfer"))
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument("--save", action="store_true", help="append to results/cache_loss.jsonl")
    args = parser.parse_args()

    prompts = read_lines(PROMPTS)
    print("| model | products, cache | answers | tokens | prompts | mean log p | rms | largest |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "prompts.jsonl"
        with_log_probs(prompts, lines)
        for model in args.model:
            expected = None
            for kind, flags in KINDS.items():
                run(args.program, lines, folder, "--model", model, "--token-ids", *flags)
                found = read_lines(pathlib.Path(folder) / "run.jsonl")
                expected = expected or found
                loss = compare(prompts, expected, found)
                print(f"| {model} | {kind} | {loss['right_answers']} of {loss['questions']} "
                      f"| {loss['same_tokens']:.1%} "
                      f"| {loss['same_prompts']} of {loss['prompts']} "
                      f"| {loss['log_prob_mean']:.5f} | {loss['log_prob_rms']:.5f} "
                      f"| {loss['log_prob_largest']:.4f} |", flush=True)
                if args.save:
                    command = f"scripts/cache_loss.py --model {model}"
                    record("cache_loss", command, {"model": model, "kind": kind, **loss})


if __name__ == "__main__":
    main()
