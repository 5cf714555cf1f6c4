"""What answers in a form cost: masks, forms to compile, and steps of a guided batch.

DIR has the config and the tokenizer of a model; its weights are random numbers, so that steps have
the arithmetic of the model and texts are noise within their form. 64 lines decode at once, without
forms and all with one JSON schema of endless objects, in turn. The medians are over steps that
compute one token for each line: of the whole step without forms, and of all but its forward pass
with and without, since only that differs and a forward pass varies by more. Masks and forms are
measured by pagedinfer_grammar_bench, which lies beside the program (cmake --build build --target
pagedinfer_grammar_bench). And how long no unrelated line is answered while the bundled model gets
one whose form takes some 12 s to compile.
"""
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import runs

LINES, TOKENS = 64, 40
OBJECT = {"type": "object", "required": ["name", "age", "home"],
          "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer"},
                         "home": {"type": "string"}}}
SCHEMA = {"type": "array", "minItems": 1000, "items": OBJECT}
FORM = {"type": "json_schema", "json_schema": {"name": "people", "schema": SCHEMA}}


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    parser.add_argument("--model", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=5)


def step_seconds(program, model, folder, guided):
    prompts, form = pathlib.Path(folder) / "prompts.jsonl", {"response_format": FORM} if guided else {}
    runs.write_lines(prompts, [
        {"prompt_token_ids": [1, 1000 + i, 2000], "max_tokens": TOKENS, "temperature": 1, "seed": i,
         "ignore_eos": True, **form} for i in range(LINES)])
    _, _, steps = runs.run_traced(
        program, prompts, folder, "--model", str(model), "--weights", "dummy", "--max-batch-size", str(LINES),
        "--num-blocks", "512", "--max-model-len", "512")
    steps = [step for step in steps if step["tokens"] == LINES]
    whole = statistics.median(step["end_s"] - step["begin_s"] for step in steps)
    others = ("plan_ms", "stage_ms", "sample_ms", "commit_ms")
    return whole, statistics.median(sum(step[name] for name in others) for step in steps) / 1000


def slow_line():
    """The forced call of one of 40 functions whose strings have lengths of their own."""
    functions = [{"name": f"f{i}", "parameters": {"type": "object", "properties": {
        f"p{k}": {"type": "string", "maxLength": 80 + i + k} for k in range(20)}}} for i in range(40)]
    return {"messages": [{"role": "user", "content": "a"}], "tool_choice": "required",
            "tools": [{"type": "function", "function": function} for function in functions]}


def longest_stall(program, folder):
    """The longest time between records of 1,200 lines among which one is slow, and when that one came."""
    prompts, slow = pathlib.Path(folder) / "prompts.jsonl", 300
    lines = [{"prompt": f"Once {i}", "max_tokens": 4, "ignore_eos": True} for i in range(1200)]
    lines.insert(slow, slow_line())
    runs.write_lines(prompts, lines)
    begin = time.monotonic()
    process = subprocess.Popen(
        [program, "run", "--quiet", "--model", "story-qwen3", "--input", prompts, "--output", "-",
         "--order", "completion", "--stats", "/dev/null", "--max-batch-size", "16"],
        stdout=subprocess.PIPE, text=True, cwd=runs.ROOT)
    times = {json.loads(record)["index"]: time.monotonic() - begin for record in process.stdout}
    process.wait()
    slow_s = times.pop(slow)
    others = sorted(times.values())
    return max(b - a for a, b in zip(others, others[1:])), slow_s


def measure(args):
    bench = subprocess.run([args.program.with_name("pagedinfer_grammar_bench"), args.model, "--json"],
                           capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in bench.stdout.splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        rounds = {False: [], True: []}
        for _ in range(args.rounds):
            for guided in rounds:
                rounds[guided].append(step_seconds(args.program, args.model, folder, guided))
        stalls, slow = zip(*(longest_stall(args.program, folder) for _ in range(args.rounds)))
    step = statistics.median(whole for whole, _ in rounds[False])
    free, guided = (statistics.median(rest for _, rest in rounds[g]) for g in (False, True))
    found.append({"what": f"decode step of {LINES}", "rounds": args.rounds, "step_s": step,
                  "free_rest_s": free, "guided_rest_s": guided, "added_share": (guided - free) / step})
    found.append({"what": "lines beside a slow form", "rounds": args.rounds,
                  "longest_stall_s": max(stalls), "slow_line_s": statistics.median(slow)})
    for line in found:
        print(json.dumps(line))
        runs.save(args, line)
