"""What a model loses by --quantize int8 and int4, and in checkpoints of 4 bits.

The tokens of a text and those that the model generates greedily are compared between weights as
they are, --quantize none, and the kinds:

    int8, int4           --quantize
    gptq 32, awq 128 ..  a checkpoint of 4 bits in groups of so many columns, its matrices of layers
                         rounded to nearest without calibration; its codes multiply inputs in int8
    gptq 32, none ..     the same dequantized: --quantize none
    gptq 32 calibrated   a checkpoint by GPTQ, or AWQ, itself

A checkpoint's codes are compared with the same dequantized too: what inputs in int8 cost.

    perplexity   of the text, exp of the mean of -log p of its tokens, in pieces of N tokens
    top 1        share of the text's places at which both find the same token the most likely
    top 5        share of the tokens that are among the five most likely of both
    tokens       share of the greedy tokens before the first one that differs
    prompts      prompts whose greedy completions have no different token
    answers      questions whose greedy completion is the expected answer, before and of the kind

By default the text is made of the bundled prompts with their answers, each a piece, and the prompts
are the bundled ones.
"""
import math
import pathlib
import tempfile

import runs

CANDIDATES = 5


def add_flags(parser):
    runs.add_program(parser)
    runs.add_save(parser)
    parser.add_argument("--model", nargs="+", default=runs.MODELS, metavar="DIR")
    parser.add_argument("--text", help="a file; default: the bundled prompts with their answers")
    parser.add_argument("--prompts", default=runs.PROMPTS, help="a file of lines to complete greedily")
    parser.add_argument("--max-model-len", type=int, help="as that of pagedinfer run")
    parser.add_argument("--tokens", type=int, default=1024, help="in a piece of the text, about")
    parser.add_argument("--checkpoints", nargs="*", metavar="METHOD_GROUP",
                        default=["gptq 32", "gptq 128", "awq 32", "awq 128"],
                        help="checkpoints of 4 bits to make, which needs numpy, or llmcompressor for "
                             "'gptq 32 calibrated'; no name: none [these four]")


def completed(program, model, lines, kind, folder, *flags):
    path = pathlib.Path(folder) / "lines.jsonl"
    runs.write_lines(path, lines)
    runs.run(program, path, folder, "--model", model, *flags, "--quantize", kind, accepted=(0, 2))
    records = runs.read_lines(pathlib.Path(folder) / "run.jsonl")
    for found in records:
        if "error" in found:
            raise SystemExit(f"{model}, {kind}: {found['error']['message']}")
    return records


def pieces_of(text, length):
    """Pieces of about `length` tokens, at the ends of lines: a token is rarely below 3 letters."""
    pieces, piece = [], ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > 3 * length:
            pieces.append(piece)
            piece = ""
        piece += line
    return [p for p in pieces + [piece] if p.strip()]


def scores(records):
    """The log probability of every token of the text but each piece's first, and its candidates."""
    log_probs, candidates = [], []
    for found in records:
        scored = found["prompt_logprobs"]
        for log_prob, top in zip(scored["token_logprobs"], scored["top_logprobs"]):
            if log_prob is None:
                continue
            log_probs.append(log_prob)
            # The text's own token is there too, after the others.
            candidates.append(sorted(top, key=top.get, reverse=True)[:CANDIDATES])
    return log_probs, candidates


def measured(program, model, kind, pieces, prompts, flags):
    asked = [{"prompt": piece, "max_tokens": 0, "prompt_logprobs": CANDIDATES} for piece in pieces]
    greedy = [runs.without_answer(prompt) for prompt in prompts]
    with tempfile.TemporaryDirectory() as folder:
        log_probs, candidates = scores(completed(program, model, asked, kind, folder, *flags))
        answers = completed(program, model, greedy, kind, folder, "--token-ids", *flags)
    return {"perplexity": math.exp(-sum(log_probs) / len(log_probs)), "candidates": candidates,
            "answers": answers, "right_answers": runs.right_answers(prompts, answers)}


def loss_of(before, after):
    tops = list(zip(before["candidates"], after["candidates"], strict=True))
    return {"perplexity_before": before["perplexity"], "perplexity": after["perplexity"],
            "right_answers_before": before["right_answers"],
            "right_answers": after["right_answers"], "text_tokens": len(tops),
            "top_1": sum(a[:1] == b[:1] for a, b in tops) / len(tops),
            "top_5": sum(len({*a} & {*b}) / max(len(a), 1) for a, b in tops) / len(tops),
            **runs.same_tokens(before["answers"], after["answers"])}


def write_checkpoint(model, folder, name):
    source = pathlib.Path(model) if pathlib.Path(model).is_dir() else runs.ROOT / "datasets" / model
    method, group, *how = name.split()
    if how == ["calibrated"]:
        import calibrated_models  # needs llmcompressor
        calibrated_models.write_calibrated(source, folder, method, int(group))
    else:
        import rounded_models  # needs numpy, which all else here does without
        rounded_models.write_rounded(source, folder, method, int(group))


def compare(args, model, pieces, prompts, flags):
    """Yields what each kind loses against another."""
    def of(folder, kind):
        return measured(args.program, folder, kind, pieces, prompts, flags)

    none = of(model, "none")
    for kind in ("int8", "int4"):
        yield {"kind": kind, "against": "none", **loss_of(none, of(model, kind))}
    for name in args.checkpoints:
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "model"
            write_checkpoint(model, made, name)
            dequantized, codes = of(made, "none"), of(made, "codes")
        yield {"kind": f"{name}, none", "against": "none", **loss_of(none, dequantized)}
        yield {"kind": name, "against": "none", **loss_of(none, codes)}
        yield {"kind": name, "against": f"{name}, none", **loss_of(dequantized, codes)}


def measure(args):
    prompts = [prompt for prompt in runs.read_lines(args.prompts) if "prompt" in prompt]
    if args.text:
        pieces = pieces_of(pathlib.Path(args.text).read_text(encoding="utf-8"), args.tokens)
    else:
        pieces = [f"{p['prompt']} {p.get('answer', '')}".strip() for p in prompts]
    if not pieces or not prompts:
        raise SystemExit(f"{args.prompts if pieces else args.text}: expected some text")
    flags = ["--max-model-len", str(args.max_model_len)] if args.max_model_len else []
    questions = sum("answer" in prompt for prompt in prompts)
    print("| model | kind | against | perplexity before | its own | top 1 | top 5 | tokens | prompts "
          "| answers |\n|---|---|---|---|---|---|---|---|---|---|")
    for model in args.model:
        for loss in compare(args, model, pieces, prompts, flags):
            print(f"| {pathlib.Path(model).name} | {loss['kind']} | {loss['against']} "
                  f"| {loss['perplexity_before']:.4f} | {loss['perplexity']:.4f} "
                  f"| {loss['top_1']:.1%} | {loss['top_5']:.1%} | {loss['same_tokens']:.1%} "
                  f"| {loss['same_prompts']} of {loss['prompts']} "
                  f"| {loss['right_answers_before']} and {loss['right_answers']} of {questions} |",
                  flush=True)
            runs.save(args, {"model": pathlib.Path(model).name, **loss, "questions": questions})
