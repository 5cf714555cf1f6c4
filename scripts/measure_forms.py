#!/usr/bin/env python3
"""Measures what answers in a form cost: masks, forms to compile, and steps of a guided batch.

  scripts/measure_forms.py --model DIR [--program build/pagedinfer] [--rounds N] [--save]

DIR has the config and the tokenizer of a model; its weights are random numbers, so that steps have
the arithmetic of the model and texts are noise within their form. 64 lines decode at once, without
forms and all with one JSON schema of endless objects, in turn; the median step that computes one
token for each counts. Masks and forms are measured by pagedinfer_grammar_bench, which lies beside
the program (cmake --build build --target pagedinfer_grammar_bench). --save appends all to
results/forms.jsonl.
REQUIRES: nothing else computes meanwhile.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from benchmark import ROOT, record, run

LINES, TOKENS = 64, 40
OBJECT = {"type": "object", "required": ["name", "age", "home"],
          "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer"},
                         "home": {"type": "string"}}}
SCHEMA = {"type": "array", "minItems": 1000, "items": OBJECT}
FORM = {"type": "json_schema", "json_schema": {"name": "people", "schema": SCHEMA}}


def step_seconds(program, model, folder, guided):
    prompts, trace = folder / "prompts.jsonl", folder / "trace.jsonl"
    with open(prompts, "w", encoding="utf-8") as out:
        for i in range(LINES):
            line = {"prompt_token_ids": [1, 1000 + i, 2000], "max_tokens": TOKENS, "temperature": 1,
                    "seed": i, "ignore_eos": True} | ({"response_format": FORM} if guided else {})
            out.write(json.dumps(line) + "\n")
    trace.unlink(missing_ok=True)
    run(program, prompts, folder, "--model", str(model), "--weights", "dummy", "--trace", str(trace),
        "--max-batch-size", str(LINES), "--num-blocks", "512", "--max-model-len", "512")
    steps = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    return [step["end_s"] - step["begin_s"] for step in steps if step["tokens"] == LINES]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build" / "pagedinfer", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="append to results/forms.jsonl")
    args = parser.parse_args()
    command = f"scripts/measure_forms.py --model {args.model.name} --rounds {args.rounds}"
    found = []
    bench = subprocess.run([args.program.with_name("pagedinfer_grammar_bench"), args.model, "--json"],
                           capture_output=True, text=True, check=True)
    found += [json.loads(line) for line in bench.stdout.splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        medians = {False: [], True: []}
        for _ in range(args.rounds):
            for guided in medians:
                steps = step_seconds(args.program, args.model, pathlib.Path(folder), guided)
                medians[guided].append(statistics.median(steps))
        ratios = [guided / free for free, guided in zip(medians[False], medians[True])]
        found.append({"what": f"decode step of {LINES}", "rounds": args.rounds,
                      "free_s": statistics.median(medians[False]),
                      "guided_s": statistics.median(medians[True]),
                      "guided_over_free": statistics.median(ratios), "all_ratios": ratios})
    for line in found:
        print(json.dumps(line))
        if args.save:
            record("forms", command, line)


if __name__ == "__main__":
    main()
