#!/usr/bin/env python3
"""Writes what transformers computes with a bundled model, for the tests to compare with.

  make_goldens.py --model datasets/story-llama --prompts datasets/prompts.jsonl \
                  --output tests/data/story-llama

Needs exactly torch 2.13.0 and transformers 5.23.0, and sentencepiece 0.2.3 or tokenizers 0.23.3 by
what the model has. Floats are printed with 9 significant digits, which a float32 survives. The
files, one record a line:

  tokens.jsonl       {"id", "text", "token_ids"}: each prompt by the tokenizer's library, with BOS
                     where the model wants it; then texts that are not in the demo, as "text-1" and
                     so on.
  logits.jsonl       {"id", "token_ids", "positions", "float32": [row, ...], "bfloat16": [row, ...]}:
                     the logits after some positions of a prompt, the last one included. float32:
                     bfloat16 weights widened, all else in float32. bfloat16: all in bfloat16.
  log_probs.jsonl    {"id", "token_ids", "log_probs": [number, ...], "top": [[[id, number], ...], ...]}:
                     in float32, the log probability of each token of a prompt but the first, and the 5
                     most likely ids in its place.
  completions.jsonl  {"id", "max_tokens", "token_ids", "min_margin"}: greedy in float32. EOS, where it
                     ended so, is the last token. min_margin is the least lead of the best logit.
"""

import argparse
import importlib
import json
import pathlib

import torch
import transformers

VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0", "sentencepiece": "0.2.3",
            "tokenizers": "0.23.3"}
NUM_COMPLETIONS = 64
NUM_BEST = 5
SCORED_LENGTHS = (17, 33)
LENGTHS = (1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 129, 257, 333, 410)
TEXTS = ["", " ", "  two  spaces  ", "a\ttab and\nlines\r\n\n", "Ärger, naïve café", "日本語 and 🙂",
         "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "<t>not a token</t>", "0123456789.5e-7", "▁▁ lower blocks ▁",
         "Mia", " Mia", "e\u0301 combining", "\u0000 zero byte"]


def read_prompts(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_lines(path, records):
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def rounded(row):
    return [float(f"{x:.9g}") for x in row.tolist()]


def pinned(name):
    """The library of that name. Exits unless it has the version whose results are recorded."""
    library = importlib.import_module(name)
    found = library.__version__.split("+")[0]
    if found != VERSIONS[name]:
        raise SystemExit(f"{name} is {found}, expected {VERSIONS[name]}")
    return library


def encoder(directory):
    if (directory / "tokenizer.model").exists():
        library = pinned("sentencepiece")
        tokenizer = library.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
        return lambda text: [tokenizer.bos_id()] + tokenizer.encode(text)
    tokenizer = pinned("tokenizers").Tokenizer.from_file(str(directory / "tokenizer.json"))
    return lambda text: tokenizer.encode(text).ids


def load(model, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(model, dtype=dtype).eval()


def logits_of(model, token_ids):
    return model(input_ids=torch.tensor([token_ids])).logits[0].float()


def some_prompts(tokens, lengths):
    """Prompts of these lengths: each the beginning of the shortest one that is long enough."""
    longest = max(len(ids) for ids in tokens.values())
    for length in sorted({min(length, longest) for length in lengths}):
        key, ids = min((item for item in tokens.items() if len(item[1]) >= length),
                       key=lambda item: (len(item[1]), item[0]))
        yield key, ids[:length]


def logits_records(exact, coarse, tokens):
    for key, ids in some_prompts(tokens, LENGTHS):
        positions = sorted({0, len(ids) // 2, len(ids) - 1})
        record = {"id": f"{key}-first-{len(ids)}", "token_ids": ids, "positions": positions}
        for name, model in (("float32", exact), ("bfloat16", coarse)):
            rows = logits_of(model, ids)
            record[name] = [rounded(rows[position]) for position in positions]
        yield record


def log_prob_records(model, tokens):
    for key, ids in some_prompts(tokens, SCORED_LENGTHS):
        rows = torch.log_softmax(logits_of(model, ids)[:-1], dim=-1)
        best = rows.topk(NUM_BEST)
        yield {"id": f"{key}-first-{len(ids)}", "token_ids": ids,
               "log_probs": rounded(rows[range(len(ids) - 1), ids[1:]]),
               "top": [[list(pair) for pair in zip(best.indices[i].tolist(), rounded(best.values[i]))]
                       for i in range(len(ids) - 1)]}


def complete(model, ids, max_tokens):
    """Greedy completion without a cache of our own: the token ids and the least lead met."""
    eos = model.generation_config.eos_token_id
    ends = eos if isinstance(eos, list) else [eos]
    cache, inputs, completion, margin = None, ids, [], float("inf")
    while len(completion) < max_tokens and not (completion and completion[-1] in ends):
        step = model(input_ids=torch.tensor([inputs]), past_key_values=cache, use_cache=True)
        best = step.logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        cache, inputs = step.past_key_values, [int(best.indices[0])]
        completion += inputs
    return completion, margin


def completion_records(model, prompts, tokens):
    for prompt in prompts[:NUM_COMPLETIONS]:
        ids, margin = complete(model, tokens[prompt["id"]], prompt["max_tokens"])
        yield {"id": prompt["id"], "max_tokens": prompt["max_tokens"], "token_ids": ids,
               "min_margin": float(f"{margin:.4g}")}


def begin(doc):
    """Reads the command line, checks the versions and prepares torch."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    args = parser.parse_args()
    pinned("torch"), pinned("transformers")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return args


def main():
    args = begin(__doc__)

    prompts = read_prompts(args.prompts)
    encode = encoder(args.model)
    texts = {p["id"]: p["prompt"] for p in prompts}
    texts |= {f"text-{i + 1}": text for i, text in enumerate(TEXTS)}
    tokens = {key: encode(text) for key, text in texts.items()}

    args.output.mkdir(parents=True, exist_ok=True)
    write_lines(args.output / "tokens.jsonl",
                ({"id": key, "text": text, "token_ids": tokens[key]} for key, text in texts.items()))
    exact, coarse = load(args.model, torch.float32), load(args.model, torch.bfloat16)
    told = {p["id"]: tokens[p["id"]] for p in prompts}
    write_lines(args.output / "logits.jsonl", logits_records(exact, coarse, told))
    write_lines(args.output / "log_probs.jsonl", log_prob_records(exact, told))
    write_lines(args.output / "completions.jsonl", completion_records(exact, prompts, told))


if __name__ == "__main__":
    main()
