"""What a KV cache in fewer bits changes, with the bundled models and prompts.

All prompts are completed greedily with each type of the cache, and compared with products and cache
in float32:

    answers      questions whose completion is the expected answer
    tokens       share of the float32 run's tokens before the first one that differs
    prompts      prompts whose completions have no different token
    log p        of the prompts' own tokens, which are the same in all runs: its mean, and its
                 distance from the float32 run's, root mean square and largest
"""
import math
import pathlib
import tempfile

import runs

KINDS = {  # products, cache: the flags; the first is what the others are compared with
    "float32, float32": ["--dtype", "float32"],
    "float32, float16": ["--dtype", "float32", "--kv-dtype", "float16"],
    "float32, int8": ["--dtype", "float32", "--kv-dtype", "int8"],
    "bfloat16, bfloat16": ["--dtype", "bfloat16"],
    "bfloat16, int8": ["--dtype", "bfloat16", "--kv-dtype", "int8"],
}


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    parser.add_argument("--model", nargs="+", default=runs.MODELS)


def log_probs(records):
    # The first token of a prompt has none.
    return [p for found in records for p in found["prompt_logprobs"]["token_logprobs"] if p is not None]


def compare(prompts, expected, found):
    exact, ours = log_probs(expected), log_probs(found)
    distances = [abs(a - b) for a, b in zip(exact, ours, strict=True)]
    return {"right_answers": runs.right_answers(prompts, found),
            "questions": sum("answer" in prompt for prompt in prompts),
            **runs.same_tokens(expected, found),
            "log_prob_mean": sum(ours) / len(ours),
            "log_prob_rms": math.sqrt(sum(d * d for d in distances) / len(distances)),
            "log_prob_largest": max(distances)}


def measure(args):
    prompts = runs.read_lines(runs.PROMPTS)
    print("| model | products, cache | answers | tokens | prompts | mean log p | rms | largest |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "prompts.jsonl"
        runs.write_lines(lines, [{**runs.without_answer(prompt), "prompt_logprobs": 0} for prompt in prompts])
        for model in args.model:
            expected = None
            for kind, flags in KINDS.items():
                runs.run(args.program, lines, folder, "--model", model, "--token-ids", *flags)
                found = runs.read_lines(pathlib.Path(folder) / "run.jsonl")
                expected = expected or found
                loss = compare(prompts, expected, found)
                print(f"| {model} | {kind} | {loss['right_answers']} of {loss['questions']} "
                      f"| {loss['same_tokens']:.1%} "
                      f"| {loss['same_prompts']} of {loss['prompts']} "
                      f"| {loss['log_prob_mean']:.5f} | {loss['log_prob_rms']:.5f} "
                      f"| {loss['log_prob_largest']:.4f} |", flush=True)
                runs.save(args, {"model": model, "kind": kind, **loss})
